from hypothesis import settings

# The machine may be shared and slow, and a failure must be the same one tomorrow: no deadlines, no random seeds.
settings.register_profile("voxpop", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("voxpop")
