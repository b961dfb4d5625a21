"""Run migrations on the connection that `stores.migrate` hands over, inside its transaction and its lock."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
