// Features of the animation library that animate reordered lists. They are a separate file, so that the browser loads
// them after the page is shown.

export { domMax as default } from "motion/react";
