// Package output prints preflight reports: for people on a terminal or a page, and
// for machines as JSON, JUnit and Prometheus text. It decides nothing.
package output
