package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// chain is an ensemble z = c·(b·x) with the side output y2 = b·(b·x), of the models b and c.
const chain = `platform: "ensemble" max_batch_size: 4
	input { name: "in" data_type: TYPE_FP32 dims: [2] } output { name: "z" } output { name: "y2" data_type: TYPE_FP32 dims: [2] }
	ensemble_scheduling {
		step { model_name: "c" input_map { key: "x" value: "mid" } output_map { key: "y" value: "z" } }
		step { model_name: "b" model_version: -1 input_map { key: "x" value: "in" } output_map { key: "y" value: "mid" } }
		step { model_name: "b" model_version: 1 input_map { key: "x" value: "mid" } output_map { key: "y" value: "y2" } } }`

func chainRepo(t testing.TB) string {
	return writeRepo(t, map[string][]byte{"a/config.pbtxt": []byte(chain), "b/1/model.onnx": scaled(t, 2),
		"c/1/model.onnx": scaled(t, 3)})
}

func inferA(s *Server, outputs string) (int, string) {
	w := call(s, "POST", "/v2/models/a/infer", []byte(`{"inputs":[{"name":"in","shape":[1,2],"datatype":"FP32","data":[1,2]}]`+outputs+`}`))
	return w.Code, w.Body.String()
}

func TestEnsemble(t *testing.T) {
	s := newServer(t, chainRepo(t), nil)
	code, body := inferA(s, "")
	if want := `"outputs":[{"name":"z","datatype":"FP32","shape":[1,2],"data":[6,12]},{"name":"y2","datatype":"FP32","shape":[1,2],"data":[4,8]}]`; code != 200 || !strings.Contains(body, want) {
		t.Errorf("%d %s, want %s", code, body, want)
	}
	if code, body = inferA(s, `,"outputs":[{"name":"y2"}]`); code != 200 || strings.Contains(body, `"z"`) || !strings.Contains(body, "[4,8]") {
		t.Errorf("one output: %d %s", code, body)
	}
	for model, want := range map[string]uint64{"a": 2, "b": 4, "c": 1} { // c is not needed for y2
		v := s.models[model].versions[1]
		if m := v.statistics(); m.InferenceStats.Success.Count != want || m.InferenceCount != want {
			t.Errorf("statistics of %s: %d requests, %d inferences, want %d", model, m.InferenceStats.Success.Count,
				m.InferenceCount, want)
		}
	}
	m := get(t, s, "/v2/models/a")
	if fmt.Sprintf("%v %v %v", m["platform"], m["inputs"], m["outputs"]) != "ensemble [map[datatype:FP32 name:in "+
		"shape:[-1 2]]] [map[datatype:FP32 name:z shape:[-1 2]] map[datatype:FP32 name:y2 shape:[-1 2]]]" {
		t.Errorf("metadata: %v", m)
	}
	if c := get(t, s, "/v2/models/a/config"); fmt.Sprint(c["platform"]) != "ensemble" ||
		c["ensemble_scheduling"] == nil {
		t.Errorf("configuration: %v", c)
	}
	for body, want := range map[string]string{
		`{"inputs":[{"name":"in","shape":[5,2],"datatype":"FP32","data":[1,2,3,4,5,6,7,8,9,10]}]}`: "max_batch_size 4",
		`{"inputs":[{"name":"mid","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`:                 "unexpected inference input",
		`{"inputs":[],"outputs":[{"name":"mid"}]}`:                                                 "missing",
		`{"parameters":{"sequence_id":1},"inputs":[]}`:                                             "stateless",
	} {
		if w := call(s, "POST", "/v2/models/a/infer", []byte(body)); w.Code != 400 ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
}

func TestEnsembleErrors(t *testing.T) {
	const io = `input { name: "in" data_type: TYPE_FP32 dims: [-1, 2] } output { name: "out" } `
	step := func(model, in, out string) string {
		return fmt.Sprintf(`step { model_name: %q input_map { key: "x" value: %q } output_map { key: "y" value: %q } } `, model, in, out)
	}
	for _, c := range []struct{ config, want string }{
		{`platform: "ensemble"`, "needs ensemble_scheduling"},
		{`ensemble_scheduling { }`, "0 steps"},
		{io + `platform: "onnxruntime_onnx" ensemble_scheduling { ` + step("b", "in", "out") + `}`, `platform is "onnxruntime_onnx"`},
		{io + `backend: "onnxruntime" ensemble_scheduling { ` + step("b", "in", "out") + `}`, "its models have them"},
		{`ensemble_scheduling { ` + step("b", "in", "out") + `}`, "needs input and output"},
		{io + `ensemble_scheduling { ` + step("", "in", "out") + `}`, "step 1 of the ensemble: model_name"},
		{io + `ensemble_scheduling { ` + step("../b", "in", "out") + `}`, "must not contain a path"},
		{io + `ensemble_scheduling { ` + step("none", "in", "out") + `}`, "'none'"},
		{io + `ensemble_scheduling { ` + step("a", "in", "out") + `}`, "ensembles refer to each other: a → a"},
		{io + `ensemble_scheduling { step { model_name: "b" model_version: -2 } }`, "model_version is -2"},
		{io + `ensemble_scheduling { step { model_name: "b" model_version: 7 } }`, "version 7"},
		{io + `ensemble_scheduling { step { model_name: "b" model_namespace: "n" } }`, "model_namespace"},
		{io + `ensemble_scheduling { step { model_name: "b" input_map { key: "z" value: "in" } } }`, `input_map has "z"`},
		{io + `ensemble_scheduling { step { model_name: "b" output_map { key: "y" value: "out" } } }`, `input "x" of the model is not in input_map`},
		{io + `ensemble_scheduling { step { model_name: "b" input_map { key: "x" value: "in" } output_map { key: "z" value: "out" } } }`, `output_map has "z"`},
		{io + `ensemble_scheduling { ` + step("b", "in", "mid") + `}`, `no step has output "out"`},
		{io + `ensemble_scheduling { ` + step("b", "in", "out") + step("b", "in", "out") + `}`, `tensor "out" is already an output of step 1`},
		{io + `ensemble_scheduling { ` + step("b", "in", "in") + `}`, `input "in" is also an output of step 1`},
		{io + `ensemble_scheduling { ` + step("b", "other", "out") + `}`, `no step reads input "in"`},
		{io + `ensemble_scheduling { ` + step("b", "in", "mid") + step("b", "other", "out") + `}`, `step 2 reads tensor "other"`},
		{io + `ensemble_scheduling { ` + step("b", "in", "mid") + step("b", "q", "p") + step("b", "p", "q") + step("b", "mid", "out") + `}`, "steps 2 (b), 3 (b) of the ensemble wait for each other"},
		{io + `ensemble_scheduling { ` + step("b", "in", "mid") + step("ints", "mid", "out") + `}`, `tensor "mid" is FP32 as an output of step 1, but INT32 as an input of step 2`},
		{io + `ensemble_scheduling { ` + step("b", "in", "mid") + step("wide", "mid", "out") + `}`, `shape [-1 2] as an output of step 1, but [-1 3] as an input of step 2`},
		{`input { name: "in" data_type: TYPE_INT32 } output { name: "out" } ensemble_scheduling { ` + step("b", "in", "out") + `}`, "TYPE_INT32"},
		{`input { name: "in" optional: true } output { name: "out" } ensemble_scheduling { ` + step("b", "in", "out") + `}`, "optional, but not for step 1"},
		{`max_batch_size: 9 input { name: "in" } output { name: "out" } ensemble_scheduling { ` + step("batched", "in", "out") + `}`, "max_batch_size of the ensemble is 9, but that of the model is 8"},
		{`max_batch_size: 2 input { name: "in" } output { name: "out" } ensemble_scheduling { ` + step("fixed", "in", "out") + `}`, "want a variable dimension 0"},
	} {
		s, err := New(t.Context(),
			writeRepo(t, map[string][]byte{"a/config.pbtxt": []byte(c.config), "b/1/model.onnx": scaled(t, 2),
				"ints/1/model.onnx": identity(t, tensor.TypeInt32, "n", 2),
				"wide/1/model.onnx": identity(t, tensor.TypeFloat32, "n", 3), "fixed/1/model.onnx": identity(t, tensor.TypeFloat32, 1, 2), "batched/1/model.onnx": scaled(t, 2), "batched/config.pbtxt": []byte("max_batch_size: 8")}), quiet(nil))
		if err == nil {
			s.Close()
			t.Errorf("%s is accepted", c.config)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "'a'") {
			t.Errorf("%s: %v, want %q and the ensemble's name", c.config, err, c.want)
		}
	}
}

// TestEnsemblesThatReferToEachOther checks cycles of ensembles, also those that a changed
// configuration closes.
func TestEnsemblesThatReferToEachOther(t *testing.T) {
	of := func(model string) []byte {
		return fmt.Appendf(nil, `input { name: "x" } output { name: "y" } ensemble_scheduling { step { model_name: %q input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }`, model)
	}
	_, err := New(t.Context(),
		writeRepo(t, map[string][]byte{"a/config.pbtxt": of("b"), "b/config.pbtxt": of("c"),
			"c/config.pbtxt": of("a")}), quiet(nil))
	if err == nil || !strings.Contains(err.Error(), "ensembles refer to each other: a → b → c → a") {
		t.Errorf("%v", err)
	}
	repo := writeRepo(t,
		map[string][]byte{"a/config.pbtxt": of("b"), "b/config.pbtxt": of("c"), "c/1/model.onnx": scaled(t, 2)})
	s := newServer(t, repo, nil)
	write(t, repo+"/c/config.pbtxt", of("a"))
	if err := s.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("closing a cycle: %v", err)
	}
	if w := call(s, "POST", "/v2/models/a/infer",
		[]byte(`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`)); w.Code != 200 || !strings.Contains(w.Body.String(), "[2,4]") {
		t.Errorf("an ensemble of an ensemble: %d %s", w.Code, w.Body)
	}
}

func TestModelsOfAnEnsembleChange(t *testing.T) {
	repo := chainRepo(t)
	s := newServer(t, repo, &Options{AllowModelControl: true})
	write(t, repo+"/c/1/model.onnx", scaled(t, 10))
	if err := s.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, body := inferA(s, ""); code != 200 || !strings.Contains(body, "[20,40]") {
		t.Errorf("after a change of c: %d %s", code, body)
	}
	control := func(path, body string) {
		t.Helper()
		if w := call(s, "POST", "/v2/repository/models/"+path, []byte(body)); w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	control("c/unload", "")
	if w := call(s, "GET", "/v2/models/a/ready", nil); w.Code != 503 {
		t.Errorf("ready without c: %d %s", w.Code, w.Body)
	}
	if r, err := dial(t, s).ModelReady(t.Context(), &inference.ModelReadyRequest{Name: "a"}); err != nil || r.Ready {
		t.Errorf("ready without c: %v %v", r, err)
	}
	if code, body := inferA(s, ""); code != 503 || !strings.Contains(body, "in ensemble 'a', step 1, model 'c'") {
		t.Errorf("without c: %d %s", code, body)
	}
	control("a/load", "") // brings its models
	if code, body := inferA(s, ""); code != 200 {
		t.Errorf("after the load: %d %s", code, body)
	}
	control("a/unload", `{"parameters":{"unload_dependents":true}}`)
	for _, m := range []string{"a", "b", "c"} {
		if w := call(s, "GET", "/v2/models/"+m+"/ready", nil); w.Code == 200 {
			t.Errorf("%s is ready after unload_dependents", m)
		}
	}
}

func TestEnsembleOfAStatefulModel(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(`max_batch_size: 8 input { name: "INPUT" } output { name: "OUTPUT" } ensemble_scheduling {
		step { model_name: "plain" input_map { key: "x" value: "INPUT" } output_map { key: "y" value: "mid" } }
		step { model_name: "total" input_map { key: "INPUT" value: "mid" } output_map { key: "OUTPUT" value: "OUTPUT" } } }`),
		"plain/1/model.onnx": identity(t, tensor.TypeInt32, "n", 1), "total/config.pbtxt": []byte(accumulatorConfig), "total/1/model.onnx": accumulator(t)}), nil)
	for i, x := range []step{{id: "1", start: true, input: 5, want: 5}, {id: "1", end: true, input: 2, want: 7}} {
		if code, body := x.post(s); code != 200 || !strings.Contains(body, fmt.Sprintf("[%d]", x.want)) {
			t.Errorf("request %d: %d %s", i, code, body)
		}
	}
}

// passing is a model y = x that returns its input itself after a second. It fails for 13.
type passing struct{ runs atomic.Int32 }

func (p *passing) Close() error { return nil }

func (p *passing) Run(ctx context.Context, feed onward.Values, _ *onward.RunOptions) (onward.Values, error) {
	p.runs.Add(1)
	x := feed["x"].(*tensor.Tensor)
	if tensor.MustData[float32](x)[0] == 13 {
		return nil, errors.New("unlucky element")
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return onward.Values{"y": x}, nil
}

// fakeEnsemble returns a server with an ensemble "e" of the model "m", which is p.
func fakeEnsemble(t *testing.T, p *passing, config string) *Server {
	s, err := New(t.Context(), "", quiet(nil))
	if err != nil {
		t.Fatal(err)
	}
	float := func(name string) specs {
		return newSpecs(&spec{name: name, dtype: tensor.TypeFloat32, dims: []int64{-1}})
	}
	v := &version{model: "m", number: 1, config: new(inference.ModelConfig), inputs: float("x"), outputs: float("y"),
		session: p, policy: oneLevel(schedulePolicy{instances: 4})}
	v.scheduler = newScheduler(v.policy, p)
	s.models["m"] = &entry{versions: map[int64]*version{1: v}, wanted: true}
	c, err := parseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.openEnsemble(t.Context(), "e", 1, "", c)
	if err != nil {
		t.Fatal(err)
	}
	s.models["e"] = &entry{versions: map[int64]*version{1: e}, wanted: true}
	return s
}

// TestStepsRunInParallel runs two branches of two steps, of one second each: they take
// two seconds, and the tensors that come out are those that went in.
func TestStepsRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(passing)
		s := fakeEnsemble(t, p, `input { name: "a" } input { name: "b" } output { name: "a2" } output { name: "b2" } ensemble_scheduling {
			step { model_name: "m" input_map { key: "x" value: "a" } output_map { key: "y" value: "a1" } }
			step { model_name: "m" input_map { key: "x" value: "b" } output_map { key: "y" value: "b1" } }
			step { model_name: "m" input_map { key: "x" value: "a1" } output_map { key: "y" value: "a2" } }
			step { model_name: "m" input_map { key: "x" value: "b1" } output_map { key: "y" value: "b2" } } }`)
		a, b := tensor.Must(tensor.New([]float32{1}, 1)), tensor.Must(tensor.New([]float32{2}, 1))
		start := time.Now()
		resp, err := s.infer(t.Context(),
			&request{model: "e", inputs: []namedTensor{{"a", a}, {"b", b}}, received: start})
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 2*time.Second || p.runs.Load() != 4 {
			t.Errorf("%d runs took %s, want 4 in 2 s", p.runs.Load(), got)
		}
		if resp.outputs[0].value != a || resp.outputs[1].value != b {
			t.Error("the tensors have been copied")
		}
		// A failing branch stops the other one.
		start = time.Now()
		_, err = s.infer(t.Context(),
			&request{model: "e", inputs: []namedTensor{{"a", a}, {"b", tensor.Must(tensor.New([]float32{13}, 1))}},
				received: start})
		if err == nil || !strings.Contains(err.Error(), "in ensemble 'e', step 2, model 'm': unlucky element") ||
			time.Since(start) != 0 {
			t.Errorf("failing step: %v after %s", err, time.Since(start))
		}
		if l := s.errors.list; len(l) != 1 || l[0].Model != "e" {
			t.Errorf("the last errors are %+v, want one, of model e", l)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
