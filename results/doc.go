// Package results holds the Run: what one measurement found, how it is written,
// read, judged, compared, exported and printed.
//
// It takes ledgers in and gives files and text out. It drives nothing, opens no
// socket and reads no clock. Everything that is printed is computed from the
// Run alone, so that a saved Run prints the same. A Run is not safe for
// concurrent use.
package results
