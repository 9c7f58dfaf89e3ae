package workloads

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"latencylab/service"
)

// Bounds of a file. The parser's time grows with the square of the number of
// tokens, and its stack with their depth.
const (
	maxFile   = 1 << 20 // bytes
	maxTokens = 10_000
	maxNested = 32
	maxColumn = 200 // of a key or list entry outside brackets
)

// file is one YAML file being read. what names it in errors: "workload".
type file struct {
	what, name string
	// read reads another file that this one names, of at most so many bytes.
	read  func(path string, most int) ([]byte, error)
	long  bool                    // a distribution has named a file
	dists map[string]service.Dist // those that have, by what is written
}

// placedError is an error that already names its file and line.
type placedError struct{ text string }

func (e *placedError) Error() string { return e.text }

// at returns err with the file and line put before it.
func (f *file) at(line int, err error) error {
	var p *placedError
	if errors.As(err, &p) {
		return p
	}
	return &placedError{fmt.Sprintf("read %s: %s:%d: %s", f.what, f.name, line, oneLine(err.Error()))}
}

// oneLine keeps messages of the YAML parser on one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "\t", `\t`).Replace(s)
}

// value is one value of a file. node is nil where there is none.
type value struct {
	f    *file
	path string // its key with those above it, such as "slow.share"
	line int
	node ast.Node
}

// parse returns the one document of data, which must be a map.
func (f *file) parse(data []byte) (root value, err error) {
	defer func() {
		// The parser is not ours: what it does not survive is an error of the file.
		if r := recover(); r != nil {
			err = f.at(1, errors.New("not YAML that can be read"))
		}
	}()
	if len(data) > maxFile {
		return value{}, fmt.Errorf("read %s: %s: more than %d bytes", f.what, f.name, maxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return value{}, f.at(i+1, errors.New("not UTF-8 text"))
		}
		if n := bytes.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); n >= 0 {
			return value{}, f.at(i+1, fmt.Errorf("control character %q, want text", line[n:n+1]))
		}
	}
	tokens := lexer.Tokenize(string(data))
	if err := f.checkTokens(tokens); err != nil {
		return value{}, err
	}
	doc, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return value{}, f.syntax(err)
	}
	for _, d := range doc.Docs {
		if d.Body == nil {
			continue
		}
		if root.node != nil {
			return value{}, f.at(lineOf(d.Body), errors.New("a second document, want one"))
		}
		root = value{f: f, line: lineOf(d.Body), node: d.Body}
	}
	if root.node == nil {
		return value{}, f.at(1, fmt.Errorf("empty, want a %s", f.what))
	}
	return root, nil
}

// syntax turns an error of the parser into one line.
func (f *file) syntax(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return f.at(1, errors.New("not YAML that can be read"))
	}
	line := 1
	if t := y.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return f.at(line, errors.New(y.GetMessage()))
}

// checkTokens refuses what the language does not have and what would take the
// parser too long.
func (f *file) checkTokens(tokens token.Tokens) error {
	depth, count := 0, 0
	for _, t := range tokens {
		line := 1
		column := 1
		if t.Position != nil {
			line, column = t.Position.Line, t.Position.Column
		}
		if t.Type != token.CommentType {
			count++
		}
		switch t.Type {
		case token.InvalidType:
			return f.at(line, errors.New(t.Error))
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return f.at(line, fmt.Errorf("%q: anchors, aliases and merge keys are not used, write the value out", clip(t.Value)))
		case token.TagType:
			if t.Value != binaryTag {
				return f.at(line, fmt.Errorf("%q: tags are not used, but for !!binary", clip(t.Value)))
			}
		case token.DirectiveType:
			return f.at(line, errors.New("directives are not used"))
		case token.MappingKeyType:
			return f.at(line, errors.New(`"?": keys are plain words, as in key: value`))
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingValueType:
			if depth == 0 && column > maxColumn {
				return f.at(line, fmt.Errorf("a key or list entry in column %d, want at most %d", column, maxColumn))
			}
		}
		if depth > maxNested {
			return f.at(line, fmt.Errorf("more than %d brackets deep", maxNested))
		}
		if count > maxTokens {
			return f.at(line, fmt.Errorf("more than %d words and signs", maxTokens))
		}
	}
	return nil
}

const binaryTag = "!!binary"

func lineOf(n ast.Node) int {
	if n == nil {
		return 1
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return lineOf(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// fail returns "KEY = FOUND, want WANTED" in its place.
func (v value) fail(want string) error {
	return v.f.at(v.line, fmt.Errorf("%s%s, want %s", v.is(), v.found(), want))
}

// wrap puts err, which begins with what was found, in its place.
func (v value) wrap(err error) error {
	if err == nil {
		return nil
	}
	return v.f.at(v.line, fmt.Errorf("%s%w", v.is(), err))
}

func (v value) is() string {
	if v.path == "" {
		return ""
	}
	return v.path + " = "
}

// found describes the value for a message.
func (v value) found() string {
	switch v.node.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.TagNode:
		return "a tagged value"
	}
	if s, ok := v.scalar(); ok {
		return fmt.Sprintf("%q", clip(s))
	}
	return "something else"
}

// scalar returns the text of a scalar as it was written: numbers keep their
// form. ok is false for anything else and for null.
func (v value) scalar() (text string, ok bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode:
		return n.Token.Value, true
	case *ast.FloatNode:
		return n.Token.Value, true
	case *ast.BoolNode:
		return n.Token.Value, true
	case *ast.InfinityNode:
		return n.Token.Value, true
	case *ast.NanNode:
		return n.Token.Value, true
	}
	return "", false
}

// text returns the text of a scalar, or an error that says what was wanted.
func (v value) text(want string) (string, error) {
	s, ok := v.scalar()
	if !ok {
		return "", v.fail(want)
	}
	return s, nil
}

// bytes returns the text of a scalar or the bytes of a !!binary one.
func (v value) bytes(want string) (data []byte, binary bool, err error) {
	if t, ok := v.node.(*ast.TagNode); ok {
		inner := v
		inner.node = t.Value
		s, ok := inner.scalar()
		if !ok {
			return nil, false, v.fail(want)
		}
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
		if err != nil {
			return nil, false, v.wrap(fmt.Errorf("%q, want base64 after !!binary", clip(s)))
		}
		return data, true, nil
	}
	s, err := v.text(want)
	return []byte(s), false, err
}

// list returns the entries of a list; a scalar or map is a list of one.
func (v value) list(want string) ([]value, error) {
	n, ok := v.node.(*ast.SequenceNode)
	if !ok {
		if v.node == nil || v.node.Type() == ast.NullType {
			return nil, v.fail(want)
		}
		return []value{v}, nil
	}
	if len(n.Values) == 0 {
		return nil, v.wrap(fmt.Errorf("an empty list, want %s", want))
	}
	var vs []value
	for _, e := range n.Values {
		line := v.line
		if e != nil {
			line = lineOf(e)
		}
		vs = append(vs, value{v.f, v.path, line, e})
	}
	return vs, nil
}

// pair is one key of a map with its value.
type pair struct {
	key  string
	line int
	value
}

// pairs returns the keys of a map in their order. Keys are scalars, each given
// once.
func (v value) pairs(want string) ([]pair, error) {
	var values []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, v.fail(want)
	}
	first := make(map[string]int, len(values))
	var ps []pair
	for _, mv := range values {
		k := value{f: v.f, node: mv.Key, line: lineOf(mv.Key)}
		key, ok := k.scalar()
		if !ok {
			return nil, v.f.at(k.line, errors.New("a key that is no word"))
		}
		path := key
		if v.path != "" {
			path = v.path + "." + key
		}
		if line, twice := first[key]; twice {
			return nil, v.f.at(k.line, fmt.Errorf("key %q is given twice, first in line %d", clip(key), line))
		}
		first[key] = k.line
		line := k.line
		if mv.Value != nil && mv.Value.Type() != ast.NullType {
			line = lineOf(mv.Value)
		}
		ps = append(ps, pair{key, k.line, value{v.f, path, line, mv.Value}})
	}
	return ps, nil
}

// field is one key that a map may have.
type field struct {
	name string
	set  func(v value) error
}

// fields gives each key of a map to its field. in names the map in errors; ""
// is the file itself. It returns the line of every key.
func (v value) fields(in, want string, fs []field) (lines map[string]int, err error) {
	ps, err := v.pairs(want)
	if err != nil {
		return nil, err
	}
	return v.assign(ps, in, fs)
}

// assign is fields with the pairs of the map.
func (v value) assign(ps []pair, in string, fs []field) (lines map[string]int, err error) {
	lines = make(map[string]int, len(ps))
	for _, p := range ps {
		lines[p.key] = p.line
		i := slices.IndexFunc(fs, func(f field) bool { return f.name == p.key })
		if i < 0 {
			return nil, v.f.at(p.line, unknownKey(p.key, in, names(fs)))
		}
		if err := fs[i].set(p.value); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

func names(fs []field) []string {
	names := make([]string, len(fs))
	for i := range fs {
		names[i] = fs[i].name
	}
	return names
}
