//go:build race

package sim

// fewer divides the calls of tests that compare with closed forms.
const fewer = 10
