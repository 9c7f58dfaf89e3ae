package results

// Stop says that a rule of stop-if ended the run.
type Stop struct {
	Rule     string `json:"rule"`      // as it was given, such as "errors>5% for 3s"
	Policy   string `json:"policy"`    // under which it acted
	AtNS     int64  `json:"at_ns"`     // from the start of the first stage
	WindowNS int64  `json:"window_ns"` // what it looked back on
	// Calls ended in the window, and Beyond of them failed or were too slow; 0 of
	// a rule about open calls.
	Calls  uint64 `json:"calls"`
	Beyond uint64 `json:"beyond"`
	Open   uint64 `json:"open"`  // calls open at its end
	Words  string `json:"words"` // the same for a person
}
