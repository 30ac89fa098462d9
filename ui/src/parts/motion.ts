// What moves when lists change their order: fetched after the page is there.

export { domMax as default } from "motion/react";
