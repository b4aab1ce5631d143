package onward_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestSuite runs the cases of the ONNX suite that -cases (env ONWARD_CASES)
// matches on both engines.
func TestSuite(t *testing.T) {
	dir := suite.Dir(t)
	re := regexp.MustCompile(os.Getenv("ONWARD_CASES"))
	for _, kind := range []string{"node", "simple", "pytorch-converted", "pytorch-operator"} {
		cases, _ := filepath.Glob(filepath.Join(dir, kind, "test_*"))
		sort.Strings(cases)
		for _, c := range cases {
			if !re.MatchString(filepath.Base(c)) {
				continue
			}
			for _, p := range []string{"reference", "cpu"} {
				t.Run(kind+"/"+filepath.Base(c)+"/"+p, func(t *testing.T) {
					if err := runCase(c, p); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

func runCase(dir, provider string) error {
	sess, err := onward.Open(filepath.Join(dir, "model.onnx"), &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
	if err != nil {
		return err
	}
	defer sess.Close()
	m, err := onnx.ReadFile(filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return err
	}
	sets, _ := filepath.Glob(filepath.Join(dir, "test_data_set_*"))
	for _, s := range sets {
		var in []tensor.Value
		for i := range sess.Inputs() {
			data, err := os.ReadFile(filepath.Join(s, fmt.Sprintf("input_%d.pb", i)))
			if err != nil {
				break
			}
			v, err := onnx.UnmarshalValue(data, m.Graph.Inputs[i].Type, nil, nil)
			if err != nil {
				return err
			}
			in = append(in, v)
		}
		for range 2 { // the second run has its memory planned
			out, err := sess.RunList(context.Background(), in, nil)
			if err != nil {
				return err
			}
			for i, v := range out {
				data, err := os.ReadFile(filepath.Join(s, fmt.Sprintf("output_%d.pb", i)))
				if err != nil {
					return err
				}
				want, err := onnx.UnmarshalValue(data, m.Graph.Outputs[i].Type, nil, nil)
				if err != nil {
					return err
				}
				if err := tensor.AllClose(v, want, 1e-3, 1e-7); err != nil {
					return fmt.Errorf("output %d: %w", i, err)
				}
			}
		}
	}
	return nil
}
