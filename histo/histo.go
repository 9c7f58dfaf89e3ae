// Package histo keeps latency histograms: HDR histograms of three significant
// digits over nanoseconds, their text and log formats, and exact totals beside
// them.
//
// It does no I/O of its own and reads no clock. Not safe for concurrent use.
package histo
