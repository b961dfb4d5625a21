/** What a page of a browser test calls. */
import { BrowserStorage, Device, Outcome } from "../src/index.ts";
import { wrongAnswers, wrongNumbers, wrongRefusals } from "./vectors.ts";

Object.assign(globalThis, { BrowserStorage, Device, Outcome, wrongAnswers, wrongNumbers, wrongRefusals });
