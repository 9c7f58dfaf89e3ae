package latencylab_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "latencylab"

// room is one package of the module and the reason for its place. A package
// imports rooms of lower rows only: never sideways, never up.
type room struct {
	row  int
	name string // directory below the module root; a last element * matches any one name
	pure bool   // a function of its inputs: no clock, timer, goroutine, channel, global random source
	why  string
}

// rooms is the house. A new package needs a line here, with the reason.
var rooms = []room{
	{8, "scripts/*", false, "what a person runs; nothing of the product imports it"},
	{8, "docs/examples/*", false, "programs that a page of docs shows; they import nothing of ours"},
	{7, "cmd/loadgen", false, "flags in, exit code out; nothing else"},
	{7, "cmd/target", false, "flags in, exit code out; nothing else"},
	{6, "lab", false, "the built-in experiments: a workload, a table, what must hold; they run trials, trials do not know them"},
	{5, "trial", false, "one measurement: the only room that knows the client's and the server's real-time drivers at once"},
	{4, "target", false, "the server's real-time driver; hops call on through engine, so it stands above it"},
	{3, "engine", false, "the client's real-time driver and the poller that target uses too; it knows no result format"},
	{3, "sim", true, "the virtual-time driver of both sides: a result must be equal on every machine"},
	{3, "results", false, "a Run is read and judged without the means to make one"},
	{2, "workloads", true, "the workload language says what policy and service are told; every driver reads the same"},
	{2, "ledger", true, "what is recorded of calls and attempts, for every driver alike; its sums are identities"},
	{1, "policy", true, "fit to be imported by a stranger: it must not know how requests travel or are recorded"},
	{1, "service", true, "what a server does; it must not know the client's policy"},
	{1, "http1", true, "bytes to events and back in both roles; who calls or answers is not its business"},
	{0, "clock", false, "instants, and the one place that reads the machine's clocks"},
	{0, "units", true, "text to numbers and back; imports nothing of ours"},
	{0, "slab", true, "records by number for the loops of both sides; imports nothing of ours"},
	{0, "draw", true, "keyed random numbers; imports nothing of ours"},
	{0, "histo", true, "histograms and their logs; imports nothing of ours"},
}

// The rules, as findings and fixtures name them.
const (
	ruleTable   = "table"      // a package stands in the table
	ruleUpward  = "upward"     // imports lower rows only
	ruleClock   = "clock"      // reads no clock
	ruleTimer   = "timer"      // sets no timer and does not sleep
	ruleGo      = "go"         // starts no goroutine
	ruleSelect  = "select"     // does not select
	ruleChannel = "channel"    // has no channel
	ruleRandom  = "random"     // draws by key only
	ruleSystem  = "system"     // does not touch the system
	ruleOrder   = "order"      // shows no map's order
	ruleDot     = "dot-import" // hides no name's package
)

var rules = []string{ruleTable, ruleUpward, ruleClock, ruleTimer, ruleGo, ruleSelect, ruleChannel, ruleRandom, ruleSystem, ruleOrder, ruleDot}

// orderMark, with a reason after it, on the line of a range over a map says
// that the order of the iterations cannot show in any result.
const orderMark = "order does not show:"

var (
	clockFuncs = []string{"Now", "Since", "Until"}
	timerFuncs = []string{"After", "Tick", "NewTimer", "NewTicker", "AfterFunc", "Sleep"}
	// contextTimers set a timer behind the back of whoever calls them.
	contextTimers = []string{"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"}
	mapIters      = []string{"All", "Keys", "Values"}
	randomPkgs    = []string{"math/rand", "math/rand/v2", "crypto/rand"}
	// systemPkgs and everything below them reach out of the process. log writes
	// to standard error.
	systemPkgs = []string{"os", "net", "syscall", "log", "golang.org/x/sys", "embed"}
	// textPkgs lie below a system package and only turn text into values and back.
	textPkgs = []string{"net/url", "net/netip"}
	// systemAllowed: workloads reads the user's files and embeds its own.
	systemAllowed = map[string][]string{"workloads": {"os", "embed"}}
)

// finding is one breach of one rule.
type finding struct {
	pos  token.Position
	rule string
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s: %s: %s", f.pos, f.rule, f.text) }

// roomOf returns the room of a directory below the module root.
func roomOf(dir string) (room, bool) {
	for _, r := range rooms {
		if ok, _ := path.Match(r.name, dir); ok {
			return r, true
		}
	}
	return room{}, false
}

// sources parses the non-test Go files of the module, by directory.
func sources(t *testing.T, fset *token.FileSet) map[string][]*ast.File {
	t.Helper()
	dirs := map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if n := d.Name(); p != "." && (n == "testdata" || n == "vendor" || n[0] == '.' || n[0] == '_') {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(p))
		dirs[dir] = append(dirs[dir], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// check returns what the files of one directory break.
func check(dir string, fset *token.FileSet, files []*ast.File, imp types.Importer) []finding {
	var out []finding
	report := func(at token.Pos, rule, format string, args ...any) {
		out = append(out, finding{fset.Position(at), rule, fmt.Sprintf(format, args...)})
	}
	own, ok := roomOf(dir)
	if !ok {
		report(files[0].Name.Pos(), ruleTable, "package %s has no line in the table of rooms", dir)
		return out
	}
	for _, f := range files {
		for _, spec := range f.Imports {
			checkImport(own, spec, report)
		}
	}
	if !own.pure {
		return out
	}
	info := typesOf(dir, fset, files, imp)
	for _, f := range files {
		p := &pureCheck{file: f, fset: fset, info: info, report: report, marks: orderMarks(fset, f)}
		p.run()
	}
	return out
}

type reporter func(at token.Pos, rule, format string, args ...any)

func checkImport(own room, spec *ast.ImportSpec, report reporter) {
	name, _ := strconv.Unquote(spec.Path.Value)
	if dir, ok := strings.CutPrefix(name, module+"/"); ok {
		r, known := roomOf(dir)
		switch {
		case !known:
			report(spec.Pos(), ruleTable, "imports %s, which has no line in the table of rooms", dir)
		case r.row >= own.row:
			report(spec.Pos(), ruleUpward, "%s (row %d) imports %s (row %d), want a lower row: %s", own.name, own.row, r.name, r.row, r.why)
		}
	}
	if !own.pure {
		return
	}
	if slices.Contains(randomPkgs, name) {
		report(spec.Pos(), ruleRandom, "%s imports %s, want keyed numbers of draw", own.name, name)
	}
	for _, s := range systemPkgs {
		if (name == s || strings.HasPrefix(name, s+"/")) && !slices.Contains(textPkgs, name) && !slices.Contains(systemAllowed[own.name], name) {
			report(spec.Pos(), ruleSystem, "%s imports %s", own.name, name)
		}
	}
	if spec.Name != nil && spec.Name.Name == "." {
		report(spec.Pos(), ruleDot, "%s imports %s with a dot, which hides where its names come from", own.name, name)
	}
}

// pureCheck walks one file of a pure package.
type pureCheck struct {
	file   *ast.File
	fset   *token.FileSet
	info   *types.Info
	report reporter
	marks  map[int]*mark // by line
}

// mark is one orderMark comment.
type mark struct {
	pos    token.Pos
	reason string
	used   bool
}

func orderMarks(fset *token.FileSet, f *ast.File) map[int]*mark {
	marks := map[int]*mark{}
	for _, g := range f.Comments {
		for _, c := range g.List {
			if _, reason, ok := strings.Cut(c.Text, orderMark); ok {
				marks[fset.Position(c.Pos()).Line] = &mark{pos: c.Pos(), reason: strings.TrimSpace(strings.TrimSuffix(reason, "*/"))}
			}
		}
	}
	return marks
}

// pkgSel returns the import path and name of a selector such as time.Now.
func (p *pureCheck) pkgSel(n ast.Node) (pkg, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	if pn, ok := p.info.Uses[id].(*types.PkgName); ok {
		return pn.Imported().Path(), sel.Sel.Name
	}
	return "", ""
}

func (p *pureCheck) run() {
	var sorted []ast.Expr // arguments of slices.Sorted and its like
	ast.Inspect(p.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			p.report(n.Pos(), ruleGo, "go statement")
		case *ast.SelectStmt:
			p.report(n.Pos(), ruleSelect, "select statement")
		case *ast.ChanType:
			p.report(n.Pos(), ruleChannel, "channel type")
		case *ast.SendStmt:
			p.report(n.Pos(), ruleChannel, "send")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				p.report(n.Pos(), ruleChannel, "receive")
			}
		case *ast.RangeStmt:
			p.rangeOver(n)
		case *ast.CallExpr:
			pkg, name := p.pkgSel(n.Fun)
			if pkg == "slices" && strings.HasPrefix(name, "Sorted") {
				sorted = append(sorted, n.Args...)
			}
			if pkg == "maps" && slices.Contains(mapIters, name) && !slices.Contains(sorted, ast.Expr(n)) {
				p.order(n.Pos(), "maps."+name+" outside slices.Sorted")
			}
		case *ast.SelectorExpr:
			p.selector(n)
		}
		return true
	})
	for _, m := range p.marks {
		if !m.used {
			p.report(m.pos, ruleOrder, "%q stands on no range over a map", orderMark)
		}
	}
}

func (p *pureCheck) selector(n *ast.SelectorExpr) {
	pkg, name := p.pkgSel(n)
	_, isFunc := p.info.Uses[n.Sel].(*types.Func)
	switch {
	case pkg == "time" && slices.Contains(clockFuncs, name):
		p.report(n.Pos(), ruleClock, "time.%s", name)
	case pkg == module+"/clock" && isFunc: // every function without receiver there reads a clock
		p.report(n.Pos(), ruleClock, "clock.%s", name)
	case pkg == "time" && slices.Contains(timerFuncs, name), pkg == "context" && slices.Contains(contextTimers, name):
		p.report(n.Pos(), ruleTimer, "%s.%s", pkg, name)
	case pkg == "" && (n.Sel.Name == "MapRange" || n.Sel.Name == "MapKeys"): // of reflect.Value
		p.order(n.Pos(), n.Sel.Name)
	}
}

func (p *pureCheck) rangeOver(n *ast.RangeStmt) {
	t := p.info.TypeOf(n.X)
	switch {
	case t == nil || t == types.Typ[types.Invalid]:
		p.order(n.Pos(), "range over a value whose type is not known")
	case hasMap(t):
		p.order(n.Pos(), "range over "+t.String())
	}
}

// order reports what shows a map's order, unless the line says why it does not.
func (p *pureCheck) order(at token.Pos, what string) {
	if m := p.marks[p.fset.Position(at).Line]; m != nil {
		m.used = true
		if m.reason != "" {
			return
		}
		what += " with a mark that gives no reason"
	}
	p.report(at, ruleOrder, "%s", what)
}

// hasMap reports whether a range over t may be one over a map.
func hasMap(t types.Type) bool {
	if tp, ok := t.(*types.TypeParam); ok {
		iface := tp.Underlying().(*types.Interface)
		for i := range iface.NumEmbeddeds() {
			u, ok := iface.EmbeddedType(i).(*types.Union)
			if !ok {
				return hasMap(iface.EmbeddedType(i))
			}
			for j := range u.Len() {
				if hasMap(u.Term(j).Type()) {
					return true
				}
			}
		}
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// typesOf type-checks one package as far as it goes: an error leaves a type
// unknown, and only a range over such a value needs it.
func typesOf(dir string, fset *token.FileSet, files []*ast.File, imp types.Importer) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: imp, Error: func(error) {}}
	conf.Check(module+"/"+dir, fset, files, info)
	return info
}

// sourceImporter type-checks the declarations of imported packages from their
// sources, found by one go list.
type sourceImporter struct {
	fset *token.FileSet
	dirs map[string]string // import path to directory
	done map[string]*types.Package
}

func newImporter(t *testing.T, fset *token.FileSet) *sourceImporter {
	t.Helper()
	// The fixtures import these; the module itself may not.
	std := []string{"context", "crypto/rand", "log", "maps", "math/rand", "math/rand/v2", "net", "os", "reflect", "slices", "syscall", "time"}
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-f", "{{.ImportPath}}\t{{.Dir}}", "./..."}, std...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	s := &sourceImporter{fset: fset, dirs: map[string]string{}, done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if p, dir, ok := strings.Cut(lines.Text(), "\t"); ok {
			s.dirs[p] = dir
		}
	}
	return s
}

func (s *sourceImporter) Import(name string) (*types.Package, error) {
	if p := s.done[name]; p != nil {
		return p, nil
	}
	dir := s.dirs[name]
	if dir == "" {
		dir = s.dirs["vendor/"+name] // golang.org/x packages of the standard library
	}
	if dir == "" {
		return nil, fmt.Errorf("no sources of %s", name)
	}
	bp, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, f := range slices.Concat(bp.GoFiles, bp.CgoFiles) {
		file, err := parser.ParseFile(s.fset, filepath.Join(dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	conf := types.Config{Importer: s, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	p, _ := conf.Check(name, s.fset, files, nil)
	s.done[name] = p
	return p, nil
}

// TestLayers holds the table of rooms against the imports of every package and
// the rules of purity against the syntax trees of the pure ones.
func TestLayers(t *testing.T) {
	fset := token.NewFileSet()
	imp := newImporter(t, fset)
	dirs := sources(t, fset)
	if len(dirs) == 0 {
		t.Fatal("no Go files found")
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		for _, f := range check(dir, fset, dirs[dir], imp) {
			t.Error(f)
		}
	}
}

var (
	fixtureRoom = regexp.MustCompile(`(?m)^// room: (\S+)$`)
	fixtureWant = regexp.MustCompile(`want: ([a-z-]+)`)
)

// TestLayersFixtures proves the checks: each file of testdata/layers names the
// room it pretends to stand in and marks each line that must be reported with
// the rule; nothing else may be reported, and every rule must be broken.
func TestLayersFixtures(t *testing.T) {
	fset := token.NewFileSet()
	imp := newImporter(t, fset)
	names, err := filepath.Glob("testdata/layers/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	broken := map[string]bool{}
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		dir := ""
		for _, g := range f.Comments {
			for _, c := range g.List {
				if m := fixtureRoom.FindStringSubmatch(c.Text); m != nil {
					dir = m[1]
				}
				for _, m := range fixtureWant.FindAllStringSubmatch(c.Text, -1) {
					want = append(want, fmt.Sprintf("%s:%d: %s", name, fset.Position(c.Pos()).Line, m[1]))
					broken[m[1]] = true
				}
			}
		}
		if dir == "" {
			t.Errorf("%s: no line \"// room: NAME\"", name)
			continue
		}
		for _, b := range check(dir, fset, []*ast.File{f}, imp) {
			got = append(got, fmt.Sprintf("%s:%d: %s", name, b.pos.Line, b.rule))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: reported\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	for _, r := range rules {
		if !broken[r] {
			t.Errorf("no fixture breaks the rule %q", r)
		}
	}
}
