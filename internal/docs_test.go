package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// publicAPI holds the exported names of the module's public packages: "onward.Open" for a
// package-level name, and "Session.Run" for a method or field of an exported type of any package.
type publicAPI struct {
	packages map[string]bool
	types    map[string]bool
	names    map[string]bool
	members  map[string]bool
}

func readAPI(t *testing.T) publicAPI {
	api := publicAPI{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	eachPublicFile(t, func(_ string, f *ast.File) {
		api.packages[f.Name.Name] = true
		for _, decl := range f.Decls {
			api.add(f.Name.Name, decl)
		}
	}, "provider")
	return api
}

// eachPublicFile calls fn for the files of the module's public packages, without tests.
func eachPublicFile(t *testing.T, fn func(path string, f *ast.File), without ...string) {
	t.Helper()
	without = append(without, "internal", "testdata", "cmd", "bench")
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != ".." && (strings.HasPrefix(name, ".") || slices.Contains(without, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil && f.Name.Name != "main" {
			fn(path, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestExportedSymbolsAreDocumented(t *testing.T) {
	eachPublicFile(t, func(path string, f *ast.File) {
		if ast.IsGenerated(f) { // from a file that holds the documentation
			return
		}
		for _, name := range undocumented(f) {
			t.Errorf("%s: %s has no documentation", strings.TrimPrefix(path, "../"), name)
		}
	})
}

// Every public package has an example for its documentation.
func TestPackagesHaveExamples(t *testing.T) {
	packages := map[string]bool{}
	eachPublicFile(t, func(path string, f *ast.File) { packages[filepath.Dir(path)] = true })
	for dir := range packages {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "\nfunc Example")
		})
		if !found {
			t.Errorf("%s has no example", strings.TrimPrefix(dir, "../"))
		}
	}
	if len(packages) < 15 {
		t.Errorf("found the packages %v", packages)
	}
}

// undocumented returns the exported functions, methods, types, constants and variables of a
// file without a comment.
func undocumented(f *ast.File) (names []string) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && !ast.IsExported(typeName(d.Recv.List[0].Type)) || !d.Name.IsExported() || d.Doc != nil {
				continue
			}
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
						names = append(names, s.Name.Name)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, s.Names[0].Name)
					}
				}
			}
		}
	}
	return names
}

func TestUndocumentedIsFound(t *testing.T) {
	const source = `package p

// T has a comment.
type T int

func (T) M() {}

func (t) N() {}

var V, w = 1, 2

const C = 3 // with a comment
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := undocumented(f); !slices.Equal(got, []string{"M", "V"}) {
		t.Errorf("undocumented: %v, want M and V", got)
	}
}

func (a publicAPI) add(pkg string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			a.names[pkg+"."+d.Name.Name] = true
			return
		}
		if recv := typeName(d.Recv.List[0].Type); recv != "" {
			a.members[recv+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					a.names[pkg+"."+n.Name] = true
				}
			case *ast.TypeSpec:
				a.names[pkg+"."+s.Name.Name] = true
				a.addType(s)
			}
		}
	}
}

func (a publicAPI) addType(s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return // an alias has the members of the type that it names
	}
	a.types[s.Name.Name] = true
	for _, f := range fields.List {
		for _, n := range f.Names {
			a.members[s.Name.Name+"."+n.Name] = true
		}
		if len(f.Names) == 0 {
			a.members[s.Name.Name+"."+typeName(f.Type)] = true
		}
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	codeSpan  = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	qualified = regexp.MustCompile(`(^|[^\w./:])([A-Za-z]\w*)\.([A-Z]\w*)`)
)

// documentation returns the pages of docs and docs/design, README.md and others in the root.
func documentation(t *testing.T) []string {
	t.Helper()
	pages := []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/design/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 5 {
			t.Fatalf("%s: found the pages %v, error %v", pattern, found, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// TestDocsNameWhatExists checks the Go identifiers in the code of the documentation
// against the public packages.
func TestDocsNameWhatExists(t *testing.T) {
	api := readAPI(t)
	checked := 0
	for _, page := range documentation(t) {
		if strings.Contains(page, "/design/") { // about internal packages
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range unknownNames(api, string(text), &checked) {
			t.Errorf("%s: %s does not exist", strings.TrimPrefix(page, "../"), name)
		}
	}
	if checked < 100 {
		t.Errorf("%d identifiers checked, want at least 100: does the pattern still match?", checked)
	}
}

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocsLinksResolve checks the links between the files of the repository, with their headings.
func TestDocsLinksResolve(t *testing.T) {
	checked := 0
	for _, page := range documentation(t) {
		for _, fault := range brokenLinks(t, page, &checked) {
			t.Errorf("%s: %s", strings.TrimPrefix(page, "../"), fault)
		}
	}
	if checked < 100 {
		t.Errorf("%d links checked, want at least 100: does the pattern still match?", checked)
	}
}

// brokenLinks returns the links of a page whose file or heading does not exist.
func brokenLinks(t *testing.T, page string, checked *int) (broken []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range pageLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		*checked++
		path, anchor, _ := strings.Cut(m[1], "#")
		target := page
		if path != "" {
			target = filepath.Join(filepath.Dir(page), path)
		}
		if _, err := os.Stat(target); err != nil {
			broken = append(broken, m[1])
			continue
		}
		if anchor == "" {
			continue
		}
		text, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(pageHeading.FindAllStringSubmatch(string(text), -1), func(h []string) bool {
			return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
		}) {
			broken = append(broken, m[1])
		}
	}
	return broken
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir, checked := t.TempDir(), 0
	page := filepath.Join(dir, "a.md")
	const text = "# Some title\n\n[a](a.md#some-title) [b](b.md) [c](#other) [d](https://example.com) `[e](e.md)`\n"
	if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := brokenLinks(t, page, &checked); !slices.Equal(got, []string{"b.md", "#other"}) || checked != 3 {
		t.Errorf("broken links %v of %d, want b.md and #other of 3", got, checked)
	}
}

// TestDesignPagesAreShort checks that each page of docs/design can be read at once.
func TestDesignPagesAreShort(t *testing.T) {
	const limit = 200
	for _, page := range documentation(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n >= limit && strings.Contains(page, "/design/") {
			t.Errorf("%s has %d lines, want fewer than %d: move notes on one kernel to its package", page, n, limit)
		}
	}
}

func unknownNames(api publicAPI, page string, checked *int) (unknown []string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		// The first cell of a row in a page that maps other APIs to ours is the other API's.
		if cells := strings.SplitN(line, "|", 3); len(cells) == 3 && cells[0] == "" &&
			strings.HasPrefix(page, "# Coming from") {
			lines[i] = cells[2]
		}
	}
	for _, code := range codeSpan.FindAllString(strings.Join(lines, "\n"), -1) {
		for _, m := range qualified.FindAllStringSubmatch(code, -1) {
			known := api.names
			switch {
			case api.packages[m[2]]:
			case api.types[m[2]]:
				known = api.members
			default:
				continue
			}
			*checked++
			if name := m[2] + "." + m[3]; !known[name] {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}

func TestUnknownNamesAreFound(t *testing.T) {
	api, n := readAPI(t), 0
	got := unknownNames(api, "`onward.Open` and `onward.Opened`, `Session.Run` and `Session.Walk`; onward.Prose", &n)
	if len(got) != 2 || got[0] != "onward.Opened" || got[1] != "Session.Walk" || n != 4 {
		t.Errorf("got %v of %d identifiers, want onward.Opened and Session.Walk of 4", got, n)
	}
}
