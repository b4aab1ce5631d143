//go:build !core

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/onnx"
)

// maxBisections limits the models that --bisect tries.
const maxBisections = 1000

// bisector shrinks a model on which two providers disagree.
type bisector struct {
	ctx    context.Context
	o      *compareOptions
	m      *onnx.Model
	values onward.Values // of the second provider, for all values of the main graph
	fails  bool          // the first provider returns an error; else the results differ
	tries  int
	runOn  runner
}

// bisect finds a minimal set of nodes on which the providers disagree (Zeller and Hildebrandt
// 2002, ddmin), and writes it with inputs to a folder. Values that removed nodes compute become
// inputs, with the second provider's results.
func bisect(ctx context.Context, o *compareOptions, m *onnx.Model, feed onward.Values,
	run runner) (*bisectJSON, error) {
	if _, err := os.Lstat(o.bisect); err == nil {
		return nil, cli.Usagef("--bisect: %s exists; want the name of a new folder", o.bisect)
	}
	b := &bisector{ctx: ctx, o: o, m: m, runOn: run}
	wanted := map[string]bool{}
	for _, n := range m.Graph.Nodes {
		for _, out := range n.Outputs {
			wanted[out] = out != ""
		}
	}
	var err error
	if b.values, err = run(ctx, withOutputs(m, wanted), o.providers[1], onward.PrecisionFloat32, o, feed); err != nil {
		return nil, fmt.Errorf("--bisect needs the results of all nodes: %w", err)
	}
	maps.Copy(b.values, feed)
	all := make([]int, len(m.Graph.Nodes))
	for i := range all {
		all[i] = i
	}
	var failure error
	if failure, b.fails = b.run(all); failure == nil {
		return nil, errors.New("--bisect: the providers agree on every output of the model if all values are outputs")
	}
	nodes := b.shrink(all)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(nodes) < len(all) {
		failure, _ = b.run(nodes)
	}
	if failure == nil { // providers may not always give the same results
		return nil, errors.New("--bisect: the smallest model failed once and not again; nothing is written")
	}
	r := &bisectJSON{Folder: o.bisect, Of: len(all), Error: failure.Error()}
	for _, k := range nodes {
		r.Nodes = append(r.Nodes, nodeLabel(m.Graph.Nodes[k].Name, m.Graph.Nodes[k].OpType))
	}
	r.Command = fmt.Sprintf("onward compare %s --inputs %s --provider %s --rtol %g --atol %g",
		quoted(filepath.Join(o.bisect, "model.onnx")),
		quoted(filepath.Join(o.bisect, dataSet)), strings.Join(o.providers, ","), o.tolerance.Rtol, o.tolerance.Atol)
	return r, b.write(nodes)
}

const dataSet = "test_data_set_0" // as in the ONNX backend suite

// shrink returns a minimal failing subset of nodes, or the smallest found when the context ends or
// too many models have been tried.
func (b *bisector) shrink(nodes []int) []int {
	for parts := 2; len(nodes) > 1; {
		smaller := b.smaller(nodes, (len(nodes)+parts-1)/parts)
		switch {
		case smaller != nil:
			nodes, parts = smaller, 2
		case parts >= len(nodes):
			return nodes
		default:
			parts = min(2*parts, len(nodes))
		}
	}
	return nodes
}

// smaller returns a failing subset of nodes: size consecutive ones, or the rest without them.
// It returns nil if all of these pass.
func (b *bisector) smaller(nodes []int, size int) []int {
	for lo := 0; lo < len(nodes); lo += size {
		hi := min(lo+size, len(nodes))
		for _, try := range [][]int{nodes[lo:hi], slices.Concat(nodes[:lo], nodes[hi:])} {
			if len(try) > 0 && len(try) < len(nodes) && b.stillFails(try) {
				return slices.Clone(try)
			}
		}
	}
	return nil
}

func (b *bisector) stillFails(nodes []int) bool {
	if b.ctx.Err() != nil || b.tries > maxBisections {
		return false
	}
	b.tries++
	err, failed := b.run(nodes)
	return err != nil && failed == b.fails
}

// run runs the nodes on both providers. It returns how they disagree, nil if they agree, and
// whether the first provider failed.
func (b *bisector) run(nodes []int) (disagree error, failed bool) {
	m, feed, err := b.part(nodes)
	if err != nil {
		return nil, false // it cannot be cut out
	}
	want, err := b.runOn(b.ctx, m, b.o.providers[1], onward.PrecisionFloat32, b.o, feed)
	if err != nil {
		return nil, false
	}
	got, err := b.runOn(b.ctx, m, b.o.providers[0], b.o.precision, b.o, feed)
	if err != nil {
		return err, true
	}
	for _, v := range m.Graph.Outputs {
		if d := layers.Compare(got[v.Name], want[v.Name], b.o.tolerance); !d.Agree {
			return fmt.Errorf("output %q: %s", v.Name, d.Error), false
		}
	}
	return nil, false
}

// part returns the model of some nodes, and its inputs.
func (b *bisector) part(nodes []int) (*onnx.Model, onward.Values, error) {
	g := b.m.Graph
	made, read := map[string]bool{}, map[string]bool{}
	var scopes onnx.Scopes
	for _, k := range nodes {
		for _, out := range g.Nodes[k].Outputs {
			made[out] = true
		}
	}
	initializer := map[string]bool{}
	for _, t := range g.Initializers {
		initializer[t.Name] = true
	}
	var from, to []string
	feed := onward.Values{}
	for _, k := range nodes {
		for _, in := range scopes.Reads(g.Nodes[k]) {
			if read[in] || in == "" {
				continue
			}
			read[in] = true
			if !made[in] && (!initializer[in] || b.values[in] != nil) { // a fed value replaces the initializer
				from = append(from, in)
				if feed[in] = b.values[in]; feed[in] == nil {
					return nil, nil, fmt.Errorf("value %q is unknown", in)
				}
			}
		}
	}
	outputs := outputNames(g)
	for _, k := range nodes {
		for _, out := range g.Nodes[k].Outputs {
			if out != "" && (!read[out] || slices.Contains(outputs, out)) {
				to = append(to, out)
			}
		}
	}
	m, err := edit.Extract(b.m, from, to)
	return m, feed, err
}

// write writes the model of the nodes and its data beside the folder and renames it.
func (b *bisector) write(nodes []int) error {
	m, feed, err := b.part(nodes)
	if err != nil {
		return err
	}
	want, err := b.runOn(b.ctx, m, b.o.providers[1], onward.PrecisionFloat32, b.o, feed)
	if err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(b.o.bisect))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, ".onward-bisect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	data := filepath.Join(temp, dataSet)
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if err := onnx.WriteFile(filepath.Join(temp, "model.onnx"), m, nil); err != nil {
		return err
	}
	d, err := onward.Describe(m)
	if err != nil {
		return err
	}
	if err := (&inputs.Feed{Values: feed}).Write(data, d.Inputs); err != nil {
		return err
	}
	for i, out := range d.Outputs {
		pb, err := onnx.MarshalValue(want[out.Name])
		if err == nil {
			err = os.WriteFile(filepath.Join(data, fmt.Sprintf("output_%d.pb", i)), pb, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	return os.Rename(temp, b.o.bisect)
}
