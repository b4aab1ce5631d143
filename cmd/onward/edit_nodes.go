//go:build !core

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func editRename() *cobra.Command {
	var values, nodes, dims []string
	c := &cobra.Command{
		Use:   "rename MODEL -o OUT [--value OLD=NEW]... [--node OLD=NEW]... [--dim OLD=NEW]...",
		Short: "Rename values, nodes and dimensions",
		Long: `Rename values (inputs, outputs, weights, results of nodes), nodes and symbolic
dimensions of the main graph, and their uses in subgraphs.`,
		Example: "  onward edit rename model.onnx -o out.onnx --value input.1=image --value 495=logits --dim " +
			"batch_size=N",
	}
	c.Flags().StringArrayVar(&values, "value", nil, "a value, OLD=NEW; repeat for more")
	c.Flags().StringArrayVar(&nodes, "node", nil, "a node, OLD=NEW; repeat for more")
	c.Flags().StringArrayVar(&dims, "dim", nil, "a symbolic dimension, OLD=NEW; repeat for more")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		e := &edited{old: map[string]string{}}
		var names [3]map[string]string
		for i, list := range [][]string{values, nodes, dims} {
			names[i] = map[string]string{}
			for _, arg := range list {
				from, to, ok := strings.Cut(arg, "=")
				if !ok || names[i][from] != "" {
					return nil, cli.Usagef("%q is not OLD=NEW, or OLD appears twice", arg)
				}
				names[i][from] = to
				e.changes = append(e.changes, fmt.Sprintf("renamed %q to %q", from, to))
			}
		}
		if len(e.changes) == 0 {
			return nil, cli.Usagef("what to rename is missing: --value, --node or --dim")
		}
		for from, to := range names[0] {
			e.old[to] = from
		}
		var err error
		e.model, err = edit.Rename(m, edit.Names{Values: names[0], Nodes: names[1], Dims: names[2]})
		return e, err
	})
}

func editRemove() *cobra.Command {
	var nodes []string
	c := &cobra.Command{
		Use:   "remove MODEL -o OUT --node NAME|OPERATOR...",
		Short: "Remove nodes",
		Long: `Remove nodes of the main graph, by name or all nodes of an operator. Consumers of the
first output of a removed node read its first input instead.`,
		Example: "  onward edit remove model.onnx -o out.onnx --node Identity --node Dropout --node cast_7",
	}
	c.Flags().StringArrayVar(&nodes, "node", nil, "a node or an operator; repeat for more")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		if len(nodes) == 0 {
			return nil, cli.Usagef("--node is missing")
		}
		names, err := nodeNames("--node", m, nodes)
		if err != nil {
			return nil, err
		}
		r, n, err := edit.Remove(m, func(n *onnx.Node) bool { return names[n.Name] || names[n.OpType] })
		return &edited{model: r, changes: []string{"removed " + text.Plural(n, "node")}}, err
	})
}

// nodeNames returns the names of nodes and operators that a flag gives, each of which
// the main graph has.
func nodeNames(flag string, m *onnx.Model, list []string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, k := range list {
		if k == "" || !slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool {
			return n.Name == k || n.OpType == k
		}) {
			return nil, cli.Usagef("%s %q: the main graph has no such node or operator", flag, k)
		}
		names[k] = true
	}
	return names, nil
}

func editInsert() *cobra.Command {
	var (
		value, op, name, domain string
		readers, inputs, attrs  []string
	)
	c := &cobra.Command{
		Use:   "insert MODEL -o OUT --value NAME --op OPERATOR [--attr NAME=JSON]... [--reader NODE]...",
		Short: "Insert a node after a value",
		Long: `Insert a node between a value of the main graph and the nodes that read it. The value is
the first input of the node. If it is an output of the model, the result of the node
takes its place. A node that changes results needs --force.`,
		Example: `  onward edit insert model.onnx -o out.onnx --value features --op Identity --name probe
  onward edit insert model.onnx -o out.onnx --value logits --op Cast --attr to=float16 --force`,
	}
	s := c.Flags()
	s.StringVar(&value, "value", "", "the value")
	s.StringVar(&op, "op", "", "the operator")
	s.StringVar(&domain, "domain", "", "the operator's domain")
	s.StringVar(&name, "name", "", "the name of the node")
	s.StringArrayVar(&inputs, "operand", nil, "a value that is a further input; repeat for more")
	s.StringArrayVar(&attrs, "attr", nil, "an attribute, NAME=JSON: a number, a text, or a list; repeat for more")
	s.StringArrayVar(&readers, "reader", nil,
		"a node that reads the result (default: all that read the value); repeat for more")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		if value == "" || op == "" {
			return nil, cli.Usagef("--value or --op is missing")
		}
		n := &onnx.Node{OpType: op, Domain: domain, Name: name, Inputs: inputs}
		for _, arg := range attrs {
			a, err := parseAttribute(op, arg)
			if err != nil {
				return nil, err
			}
			n.Attributes = append(n.Attributes, a)
		}
		r, err := edit.Insert(m, edit.Insertion{Value: value, Readers: readers, Node: n})
		return &edited{model: r, changes: []string{fmt.Sprintf("inserted %s behind %q", op, value)}}, err
	})
}

// parseAttribute parses NAME=JSON. A number with a point or an exponent is a FLOAT, another an INT.
// For the attribute to of Cast, the name of an element type is its number.
func parseAttribute(op, arg string) (*onnx.Attribute, error) {
	name, text, ok := strings.Cut(arg, "=")
	if !ok || name == "" {
		return nil, cli.Usagef("--attr %q is not NAME=JSON", arg)
	}
	if t, err := tensor.ParseDType(text); err == nil && op == "Cast" && name == "to" {
		return onnx.NewAttribute(name, t)
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		v = text // without quotes
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	var ints []int64
	var floats []float32
	var texts []string
	for _, e := range list {
		switch e := e.(type) {
		case json.Number:
			f, err := e.Float64()
			if err != nil {
				return nil, cli.Usagef("--attr %q: %v", arg, err)
			}
			floats = append(floats, float32(f))
			if i, err := e.Int64(); err == nil {
				ints = append(ints, i)
			}
		case string:
			texts = append(texts, e)
		}
	}
	var value any
	switch n := len(list); {
	case n > 0 && len(ints) == n:
		if value = ints; !isList {
			value = ints[0]
		}
	case n > 0 && len(floats) == n:
		if value = floats; !isList {
			value = floats[0]
		}
	case n > 0 && len(texts) == n:
		if value = texts; !isList {
			value = texts[0]
		}
	default:
		return nil, cli.Usagef("--attr %q is not a number, a text or a list of one of them", arg)
	}
	return onnx.NewAttribute(name, value)
}
