package opfuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/recorded"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Seeds holds valid cases by operator.
type Seeds map[string][]*Case

// Load reads the recorded cases below the module's root and, where suite is not
// empty, the cases of one node of ONNX's suite in that folder.
func Load(root, suite string) (Seeds, error) {
	s := Seeds{}
	files, err := recorded.Load(filepath.Join(root, "internal", "ops", "all", "testdata", "recorded"))
	if err != nil {
		return nil, err
	}
	for file, cases := range files {
		for i, c := range cases {
			d, err := FromRecorded(c)
			if err != nil {
				return nil, err
			}
			d.From = fmt.Sprintf("%s %d", file, i)
			s.add(d)
		}
	}
	if suite != "" {
		dirs, err := filepath.Glob(filepath.Join(suite, "node", "*"))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if err := s.suite(dir); err != nil {
				return nil, fmt.Errorf("%s: %w", dir, err)
			}
		}
	}
	for _, of := range s {
		slices.SortFunc(of, func(a, b *Case) int { return strings.Compare(a.From, b.From) })
	}
	return s, nil
}

// FromRecorded converts a recorded case of one node.
func FromRecorded(c *recorded.Case) (*Case, error) {
	domain, op := c.Domain()
	d := &Case{Domain: domain, Op: op, Opset: c.Opset, From: c.Note, Constant: make([]bool, len(c.In))}
	for name, a := range c.Attrs {
		at, err := onnx.NewAttribute(name, a.Value())
		if err != nil {
			return nil, err
		}
		d.Attrs = append(d.Attrs, at)
	}
	for _, v := range c.In {
		d.In = append(d.In, v.Value())
	}
	for _, i := range c.Const {
		d.Constant[i] = true
	}
	for _, v := range c.Out {
		d.Out = append(d.Out, v != nil)
	}
	return d, nil
}

func (s Seeds) add(c *Case) {
	slices.SortFunc(c.Attrs, func(a, b *onnx.Attribute) int { return strings.Compare(a.Name, b.Name) })
	s[c.Name()] = append(s[c.Name()], c)
}

// suite adds a case of the suite if it is small and has one node.
func (s Seeds) suite(dir string) error {
	file := filepath.Join(dir, "model.onnx")
	info, err := os.Stat(file)
	if err != nil || info.Size() > 100_000 {
		return err
	}
	m, err := onnx.ReadFile(file, nil)
	if err != nil {
		return err
	}
	if len(m.Graph.Nodes) != 1 || len(m.Functions) != 0 {
		return nil
	}
	n := m.Graph.Nodes[0]
	c := &Case{Domain: kit.NormalDomain(n.Domain), Op: n.OpType, Attrs: n.Attributes, From: filepath.Base(dir)}
	for _, o := range m.OpsetImports {
		if kit.NormalDomain(o.Domain) == c.Domain {
			c.Opset = int(o.Version)
		}
	}
	feed := map[string]tensor.Value{}
	for i, in := range m.Graph.Inputs {
		b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if err != nil || len(b) > 200_000 {
			return nil
		}
		v, err := onnx.UnmarshalValue(b, in.Type, nil, nil)
		if err != nil {
			return nil // a data format that only the runner of the suite reads
		}
		feed[in.Name] = v
	}
	for _, in := range n.Inputs {
		c.In = append(c.In, feed[in])
	}
	for _, out := range n.Outputs {
		c.Out = append(c.Out, out != "")
	}
	s.add(c)
	return nil
}
