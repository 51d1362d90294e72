import "./style.css";

import { render } from "preact";

import { App } from "./App";
import { restorePlace } from "./SignIn";
import { identify } from "./state";

restorePlace();
void identify();
render(<App />, document.getElementById("app")!);
