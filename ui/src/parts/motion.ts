// Animation features for reordered lists, in their own file so that they load after the page.

export { domMax as default } from "motion/react";
