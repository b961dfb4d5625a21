/** What a page of a browser test calls. */
import { Device, Outcome } from "../src/index.ts";
import { wrongAnswers, wrongNumbers, wrongRefusals } from "./vectors.ts";

Object.assign(globalThis, { Device, Outcome, wrongAnswers, wrongNumbers, wrongRefusals });
