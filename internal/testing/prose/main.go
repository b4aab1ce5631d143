// Command prose checks the lengths of lines in Go files, and words in comments and strings:
//
//	go run ./internal/testing/prose [FOLDER...]
//
// It prints FILE:LINE and the reason for each finding, and exits with 1 if there are any. A tab
// counts as 4 columns. The limit is 100 columns for lines of comments and 120 for lines of code,
// also in comments. The limits do not hold for:
//
//   - generated files, and folders named testdata
//   - directives, expected outputs of examples, and comments without a space at which they could be
//     wrapped, such as addresses
//   - raw strings, whose columns do not count, since they hold texts of other languages
//   - in _test.go files, lines inside composite literals outside of function literals, so that a
//     table has one case per line
//
// Words are checked in _test.go files too. CONTRIBUTING.md has the terms to use.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxComment = 100
	maxCode    = 120
	tab        = 4
)

// banned are words and what to write instead. Names that a file's code uses, strings of one word,
// and paths may contain them. "There is none" is not banned.
var banned = []struct {
	words *regexp.Regexp
	use   string
}{
	{words(`pictures?`), "image"},
	{words(`products? of (two )?matrices`), "matrix product or GEMM"},
	{words(`(there )?(is|are|was|were) (none|no (size|index|number)|impossible)`),
		"what was wrong: must be, is not included, is missing"},
	{words(`bury|buries|buried|burying`), "free"},
	{words(`(goes|gone|going|go) round`), "recycle, or repeat"},
	{words(`lies (in|at|on|behind|before|outside|inside|within|between)`), "is"},
	{words(`nobody|whoever`), "the program, caller or user that is meant"},
	{words(`zoo`), "corpus of real files"},
	{words(`what becomes of`), "the field's term for the operation"},
}

func words(re string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[\s("'` + "`" + `,:])(` + re + `)($|[\s)"'` + "`" + `,:;]|[.](\W|$))`)
}

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"."}
	}
	count := 0
	for _, root := range roots {
		err := walk(root, func(f finding) {
			count++
			fmt.Println(f)
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if count > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings\n", count)
		os.Exit(1)
	}
}

// finding is a line that breaks a rule.
type finding struct {
	file   string
	line   int
	reason string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.reason) }

// walk calls report for each finding in the Go files below root.
func walk(root string, report func(finding)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		findings, err := check(path, src)
		for _, f := range findings {
			report(f)
		}
		return err
	})
}

// check returns the findings in one file, in order of lines.
func check(path string, src []byte) ([]finding, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("prose: %w", err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	found := []finding{}
	lines := classify(set, file, strings.HasSuffix(path, "_test.go"))
	own := filepath.Base(filepath.Dir(path)) == "prose" // this program contains the words
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	for i, line := range bytes.Split(src, []byte("\n")) {
		kind := lines[i+1]
		if n, limit := kind.columns(string(line)), kind.limit(); n > limit {
			found = append(found, finding{path, i + 1, fmt.Sprintf("%d columns, at most %d", n, limit)})
		}
		for _, b := range banned {
			for _, w := range b.words.FindAllStringSubmatch(kind.text, -1) {
				if own || names[w[2]] || strings.HasPrefix(w[2], "there ") {
					continue
				}
				found = append(found, finding{path, i + 1, fmt.Sprintf("%q: use %s", w[2], b.use)})
			}
		}
	}
	return found, nil
}

// kind says what a line holds.
type kind struct {
	comment bool   // the line is a comment
	exempt  bool   // the limits do not hold
	raw     int    // columns of raw strings
	text    string // comments and string literals
}

// limit returns the number of columns that a line may have.
func (k kind) limit() int {
	if k.comment && !codeBlock.MatchString(k.text) {
		return maxComment
	}
	return maxCode
}

// codeBlock matches the lines of code in comments.
var codeBlock = regexp.MustCompile(`^// ?\t`)

// columns returns the width of a line of kind k, 0 if limits do not hold.
func (k kind) columns(line string) int {
	if k.exempt || k.comment && len(strings.Fields(strings.TrimLeft(k.text, "/* -\t"))) <= 1 {
		return 0
	}
	return width(line) - k.raw
}

// classify returns the kinds of the lines of a file. In a test, tables are exempt.
func classify(set *token.FileSet, file *ast.File, test bool) map[int]kind {
	kinds := map[int]kind{}
	line := func(p token.Pos) int { return set.Position(p).Line }
	code := map[int]bool{}
	var table []bool // for each node on the path: it is in a composite literal
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			table = table[:len(table)-1]
			return true
		}
		in := test && len(table) > 0 && table[len(table)-1]
		switch n := n.(type) {
		case *ast.Comment, *ast.CommentGroup:
			table = append(table, in)
			return true
		case *ast.CompositeLit:
			if test && !in {
				for l := line(n.Lbrace) + 1; l <= line(n.Rbrace); l++ {
					k := kinds[l]
					k.exempt = true
					kinds[l] = k
				}
			}
			in = test
		case *ast.FuncLit:
			for l := line(n.Body.Lbrace) + 1; l < line(n.Body.Rbrace); l++ {
				k := kinds[l]
				k.exempt = false
				kinds[l] = k
			}
			in = false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				first := line(n.Pos())
				for i, text := range strings.Split(n.Value, "\n") {
					k := kinds[first+i]
					if strings.Contains(n.Value, " ") { // else a name
						k.text += text + "\n"
					}
					if n.Value[0] == '`' {
						k.raw += width(text)
					}
					kinds[first+i] = k
				}
			}
		}
		code[line(n.Pos())], code[line(n.End())] = true, true
		table = append(table, in)
		return true
	})
	for _, group := range file.Comments {
		expected := test && output.MatchString(group.Text())
		for _, c := range group.List {
			first := line(c.Pos())
			for i, text := range strings.Split(c.Text, "\n") {
				k := kinds[first+i]
				k.text += text
				k.comment = !code[first+i]
				k.exempt = k.comment && (expected || directive.MatchString(text))
				kinds[first+i] = k
			}
		}
	}
	return kinds
}

// output begins the comment with the expected output of an example.
var output = regexp.MustCompile(`(?i)^(unordered )?output:`)

// directive is the form of comments that tools read.
var directive = regexp.MustCompile(`^//([a-z0-9]+:|line |export |extern )`)

// width returns the columns of a text.
func width(s string) int { return utf8.RuneCountInString(s) + (tab-1)*strings.Count(s, "\t") }
