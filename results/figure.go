package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Figure is a number that may be absent. In JSON it is its key with a number,
// or with null beside a key "KEY_reason"; a lower bound stands in a key
// "KEY_at_least" (before the unit: p99_at_least_ns).
//
// The zero Figure is absent without a reason; use Num and Absent.
type Figure struct {
	Value   float64 // 0 while absent
	Present bool
	// Reason says why the figure is absent.
	Reason string
	// AtLeast is a lower bound of an absent figure; 0 means that none is known.
	AtLeast float64
}

// Num returns a present figure. A value that is not finite is absent: results
// hold neither NaN nor infinity.
func Num(x float64) Figure {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Absent("not a finite number")
	}
	return Figure{Value: x, Present: true}
}

// Absent returns an absent figure with the reason.
func Absent(reason string) Figure { return Figure{Reason: reason} }

// Absentf is Absent with a format.
func Absentf(format string, args ...any) Figure { return Absent(fmt.Sprintf(format, args...)) }

// Text is a string that may be absent. In JSON it is its key with a string, or
// with null beside a key "KEY_reason" when there is a reason.
type Text struct {
	Value  string // "" means absent
	Reason string
}

// boundKey is the key of the lower bound of the figure named key.
func boundKey(key string) string {
	if stem, ok := strings.CutSuffix(key, "_ns"); ok {
		return stem + "_at_least_ns"
	}
	return key + "_at_least"
}

var (
	figureType = reflect.TypeFor[Figure]()
	textType   = reflect.TypeFor[Text]()
)

// encodeFields writes the exported fields of a struct in order, under the keys
// of their json tags; a Figure or Text takes its sibling keys along, a nil
// slice is [], and "omitempty" leaves out what is zero.
func encodeFields(v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	b := []byte{'{'}
	for i := range rv.NumField() {
		key, omit := tag(rv.Type().Field(i))
		f := rv.Field(i)
		if key == "" || omit && (f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendKey(b, key)
		switch x := f.Interface().(type) {
		case Figure:
			b = x.append(b, key)
		case Text:
			if x.Value != "" {
				b = appendString(b, x.Value)
				break
			}
			b = append(b, "null"...)
			if x.Reason != "" {
				b = appendString(appendKey(append(b, ','), key+"_reason"), x.Reason)
			}
		default:
			if f.Kind() == reflect.Slice && f.IsNil() && f.Type() != reflect.TypeFor[json.RawMessage]() {
				b = append(b, "[]"...)
				break
			}
			e, err := marshal(x)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			b = append(b, e...)
		}
	}
	return append(b, '}'), nil
}

// tag returns the key of a field, or "" for a field that is not written.
func tag(f reflect.StructField) (key string, omit bool) {
	if !f.IsExported() {
		return "", false
	}
	key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key, options == "omitempty"
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func appendKey(b []byte, key string) []byte {
	return append(strconv.AppendQuote(b, key), ':')
}

func appendString(b []byte, s string) []byte {
	e, err := marshal(s)
	if err != nil {
		panic("results: a string does not marshal: " + err.Error())
	}
	return append(b, e...)
}

// append writes the value of key and its sibling keys.
func (f Figure) append(b []byte, key string) []byte {
	if f.Present {
		return appendNumber(b, f.Value)
	}
	b = append(b, "null"...)
	reason := f.Reason
	if reason == "" {
		reason = "not recorded"
	}
	b = appendString(appendKey(append(b, ','), key+"_reason"), reason)
	if f.AtLeast > 0 {
		b = appendNumber(appendKey(append(b, ','), boundKey(key)), f.AtLeast)
	}
	return b
}

// appendNumber writes x without an exponent.
func appendNumber(b []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(b, "null"...)
	}
	if x == 0 {
		x = 0 // not -0
	}
	return strconv.AppendFloat(b, x, 'f', -1, 64)
}

// decodeFields is the inverse of encodeFields into a pointer to a struct. Keys
// that are missing leave their field as it is, unknown keys are passed over.
// Errors begin with the path of the key.
func decodeFields(data []byte, v any) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return place("", err)
	}
	rv := reflect.ValueOf(v).Elem()
	for i := range rv.NumField() {
		key, _ := tag(rv.Type().Field(i))
		raw, ok := keys[key]
		if key == "" || !ok {
			continue
		}
		if err := decodeField(rv.Field(i), key, raw, keys); err != nil {
			return err
		}
	}
	return nil
}

func decodeField(f reflect.Value, key string, raw json.RawMessage, keys map[string]json.RawMessage) error {
	null := string(bytes.TrimSpace(raw)) == "null"
	switch {
	case f.Type() == figureType:
		x := Figure{Present: !null}
		if err := unmarshalAll(key, raw, &x.Value, key+"_reason", keys[key+"_reason"], &x.Reason); err != nil {
			return err
		}
		if b, ok := keys[boundKey(key)]; ok {
			if err := unmarshal(boundKey(key), b, &x.AtLeast); err != nil {
				return err
			}
		}
		f.Set(reflect.ValueOf(x))
	case f.Type() == textType:
		var x Text
		if err := unmarshalAll(key, raw, &x.Value, key+"_reason", keys[key+"_reason"], &x.Reason); err != nil {
			return err
		}
		f.Set(reflect.ValueOf(x))
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && !null:
		var items []json.RawMessage
		if err := unmarshal(key, raw, &items); err != nil {
			return err
		}
		s := reflect.MakeSlice(f.Type(), len(items), len(items))
		for i, item := range items {
			if err := unmarshal(key+"["+strconv.Itoa(i)+"]", item, s.Index(i).Addr().Interface()); err != nil {
				return err
			}
		}
		f.Set(s)
	default:
		return unmarshal(key, raw, f.Addr().Interface())
	}
	return nil
}

func unmarshalAll(k1 string, raw1 json.RawMessage, v1 any, k2 string, raw2 json.RawMessage, v2 any) error {
	if err := unmarshal(k1, raw1, v1); err != nil {
		return err
	}
	if raw2 == nil {
		return nil
	}
	return unmarshal(k2, raw2, v2)
}

func unmarshal(key string, raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return place(key, err)
	}
	return nil
}

// fieldError is an error at a path of keys in a Run.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// place puts key before the path of err, and says in our words what
// encoding/json says in those of Go types.
func place(key string, err error) error {
	path := key
	var inner *fieldError
	if errors.As(err, &inner) {
		if path != "" {
			path += "."
		}
		return &fieldError{path + inner.path, inner.err}
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field != "" {
			path = strings.TrimPrefix(path+"."+kind.Field, ".")
		}
		err = fmt.Errorf("found %s, want %s", kind.Value, wanted(kind.Type))
	}
	if path == "" {
		return err
	}
	return &fieldError{path, err}
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a number"
}
