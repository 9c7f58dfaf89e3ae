package policy

// What the golden scripts of variants_test.go share with those of trace_test.go.
var (
	Describe     = describe
	Phases_      = phaseNames[:]
	Dispositions = dispositionNames[:]
	Update       = update
)
