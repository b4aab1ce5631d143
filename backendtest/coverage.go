package backendtest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/onward-ml/onward/onnx"
)

// operator is the schema of an operator as far as reports need it.
type operator struct {
	Domain       string
	Name         string
	Experimental bool
	Attributes   []string
}

// bucket counts what a set of models uses: the attributes of each operator, and the distinct
// values of each attribute. As in ONNX's reporter, operators are identified by their name
// without domain, and subgraphs are not counted.
type bucket struct {
	operators map[string]map[string]map[[sha256.Size]byte]bool
	models    map[string]map[string]bool // operators by the name of a model's graph
}

func newBucket() bucket {
	return bucket{operators: map[string]map[string]map[[sha256.Size]byte]bool{}, models: map[string]map[string]bool{}}
}

// Coverage counts the operators and attributes of the models that were loaded and of those that
// passed. It is safe for concurrent use.
type Coverage struct {
	mu             sync.Mutex
	loaded, passed bucket
}

// NewCoverage returns an empty coverage.
func NewCoverage() *Coverage { return &Coverage{loaded: newBucket(), passed: newBucket()} }

// AddLoaded counts a model as loaded. Models with real set are also reported by name.
func (c *Coverage) AddLoaded(m *onnx.Model, real bool) { c.add(&c.loaded, m, real) }

// AddPassed counts a model as passed.
func (c *Coverage) AddPassed(m *onnx.Model, real bool) { c.add(&c.passed, m, real) }

func (c *Coverage) add(b *bucket, m *onnx.Model, real bool) {
	if m == nil || m.Graph == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range m.Graph.Nodes {
		attrs := b.operators[n.OpType]
		if attrs == nil {
			attrs = map[string]map[[sha256.Size]byte]bool{}
			b.operators[n.OpType] = attrs
		}
		for _, a := range n.Attributes {
			if attrs[a.Name] == nil {
				attrs[a.Name] = map[[sha256.Size]byte]bool{}
			}
			attrs[a.Name][fingerprint(a)] = true
		}
		if real {
			name := m.Graph.Name
			if b.models[name] == nil {
				b.models[name] = map[string]bool{}
			}
			b.models[name][n.OpType] = true
		}
	}
}

// fingerprint returns a hash of an attribute with its value.
func fingerprint(a *onnx.Attribute) [sha256.Size]byte {
	data, err := (&onnx.Node{Attributes: []*onnx.Attribute{a}}).Marshal()
	if err != nil { // for more than 2 GiB: hash the name only
		data = []byte(a.Name)
	}
	return sha256.Sum256(data)
}

// WriteText writes the text report: the numbers of operators that passed, were loaded and exist,
// and for each operator that passed the numbers of distinct values of its attributes.
func (c *Coverage) WriteText(w io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString("---------- onnx coverage: ----------\n")
	fmt.Fprintf(&b, "Operators (passed/loaded/total): %d/%d/%d\n", len(c.passed.operators),
		len(c.loaded.operators), len(operators))
	b.WriteString("------------------------------------\n")
	rows := [][2]string{{"Operator", "Attributes\n(name: #values)"}}
	for _, op := range slices.Sorted(maps.Keys(c.passed.operators)) {
		rows = append(rows, [2]string{op, attributeColumn(op, c.passed.operators[op])})
	}
	writeTable(&b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}

func attributeColumn(op string, seen map[string]map[[sha256.Size]byte]bool) string {
	var lines []string
	for _, a := range slices.Sorted(maps.Keys(seen)) {
		lines = append(lines, fmt.Sprintf("%s: %d", a, len(seen[a])))
	}
	i := slices.IndexFunc(operators, func(o operator) bool { return o.Name == op })
	if i >= 0 {
		for _, a := range operators[i].Attributes {
			if seen[a] == nil {
				lines = append(lines, a+": 0")
			}
		}
	}
	if lines == nil {
		return "No attributes"
	}
	return strings.Join(lines, "\n")
}

// writeTable writes two columns, whose cells may have several lines.
func writeTable(b *strings.Builder, rows [][2]string) {
	width := 0
	for _, r := range rows {
		width = max(width, utf8.RuneCountInString(r[0]))
	}
	for _, r := range rows {
		for i, line := range strings.Split(r[1], "\n") {
			left := r[0]
			if i > 0 {
				left = ""
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s  %s", width, left, line), " ") + "\n")
		}
	}
}
