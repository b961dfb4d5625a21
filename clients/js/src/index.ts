/** The participant's side of a voxpop study, for browsers, web views and Node.
 *
 * const device = new Device({ url: "https://study.example", study: "tea", promise: { model: "local", epsilon: 5 } });
 * await device.record(3, 17, 2.4); // after each round; works offline
 * await device.checkIn(); // now and then; answers if the device was invited
 */
export { BrowserStorage } from "./browser.ts";
export { Device, Outcome, type Decision, type Options } from "./device.ts";
export { InputError, NoAnswerError, StudyOverError } from "./errors.ts";
export { MemoryStorage, type Metrics, type Outgoing, type State, type Storage, type Upload } from "./memory.ts";
export { requirePromise, type OwnersPromise } from "./promise.ts";
export { Source } from "./source.ts";
