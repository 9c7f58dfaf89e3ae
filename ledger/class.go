package ledger

import "latencylab/policy"

// Class is the sort of an error, as users read it in a report.
type Class uint8

const (
	ClassNone Class = iota
	// ClassStatus is a complete answer whose status is not wanted.
	ClassStatus
	// ClassAttemptTimeout is an attempt that its own timeout ended.
	ClassAttemptTimeout
	// ClassDeadline is an attempt that the call's deadline ended.
	ClassDeadline
	ClassDNS
	ClassRefused        // the connection was refused
	ClassUnreachable    // no route to the host or network
	ClassConnectTimeout // the kernel gave up dialling, or the policy did
	ClassPortsExhausted // no local port is free (EADDRNOTAVAIL)
	ClassFileLimit      // no file descriptor is free (EMFILE, ENFILE)
	ClassReset          // the peer reset the connection
	ClassWrite          // the request could not be written
	ClassRead           // any other error of reading
	ClassClosedBeforeResponse
	ClassStaleConnection // a reused connection was closed before any byte of the answer
	ClassTruncatedHeader
	ClassTruncatedBody
	ClassBadStatusLine
	ClassBadFraming
	ClassBadHeader
	ClassHeaderTooLarge
	ClassUnexpectedUpgrade
	ClassUnexpectedBytes // bytes after a complete answer
	ClassOther
	ClassAcquireTimeout // the policy's timeout of a phase ended an attempt, as the next ones
	ClassDNSTimeout
	ClassTLSTimeout
	ClassWriteTimeout
	ClassHeadersTimeout
	ClassReadTimeout
	ClassIdleTimeout
	ClassTLS // the TLS handshake or a TLS record failed
	Classes  // number of classes
)

var classNames = [Classes]string{
	"none", "status", "attempt_timeout", "deadline", "dns", "refused", "unreachable",
	"connect_timeout", "ports_exhausted", "file_limit", "reset", "write", "read",
	"closed_before_response", "stale_connection", "truncated_header", "truncated_body",
	"bad_status_line", "bad_framing", "bad_header", "header_too_large",
	"unexpected_upgrade", "unexpected_bytes", "other", "acquire_timeout", "dns_timeout",
	"tls_timeout", "write_timeout", "headers_timeout", "read_timeout", "idle_timeout", "tls",
}

// String returns the name used in results, such as "stale_connection".
func (c Class) String() string {
	if c < Classes {
		return classNames[c]
	}
	return "unknown"
}

// ClassNamed returns the class of that name; ok is false when there is none.
func ClassNamed(name string) (c Class, ok bool) {
	for i, n := range classNames {
		if n == name {
			return Class(i), true
		}
	}
	return ClassNone, false
}

// TimeoutClass returns the class of an attempt that the timeout of part p ended.
func TimeoutClass(p policy.Part) Class {
	if p < policy.Parts {
		return timeoutClasses[p]
	}
	return ClassAttemptTimeout
}

var timeoutClasses = [policy.Parts]Class{
	policy.PartAttempt: ClassAttemptTimeout, policy.PartAcquire: ClassAcquireTimeout, policy.PartDNS: ClassDNSTimeout,
	policy.PartConnect: ClassConnectTimeout, policy.PartTLS: ClassTLSTimeout, policy.PartWrite: ClassWriteTimeout,
	policy.PartHeaders: ClassHeadersTimeout, policy.PartRead: ClassReadTimeout, policy.PartIdle: ClassIdleTimeout,
}
