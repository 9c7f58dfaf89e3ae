package http1

// Method is a request method of RFC 9110 9.3 or RFC 5789.
type Method uint8

// MethodOther is every method without a constant of its own.
const (
	MethodOther Method = iota
	MethodGet
	MethodHead
	MethodPost
	MethodPut
	MethodDelete
	MethodOptions
	MethodPatch
	MethodTrace
	numMethods
)

var methodNames = [numMethods]string{
	"other", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
}

// String returns the name as it is sent, "other" for MethodOther.
func (m Method) String() string {
	if m >= numMethods {
		return methodNames[MethodOther]
	}
	return methodNames[m]
}

// Idempotent reports whether sending the request twice means the same as once
// (RFC 9110 9.2.2). MethodOther is not known to be.
func (m Method) Idempotent() bool {
	switch m {
	case MethodGet, MethodHead, MethodPut, MethodDelete, MethodOptions, MethodTrace:
		return true
	}
	return false
}

// ParseMethod returns the method with this name, which is case-sensitive.
func ParseMethod[T string | []byte](name T) Method {
	switch string(name) {
	case "GET":
		return MethodGet
	case "HEAD":
		return MethodHead
	case "POST":
		return MethodPost
	case "PUT":
		return MethodPut
	case "DELETE":
		return MethodDelete
	case "OPTIONS":
		return MethodOptions
	case "PATCH":
		return MethodPatch
	case "TRACE":
		return MethodTrace
	}
	return MethodOther
}
