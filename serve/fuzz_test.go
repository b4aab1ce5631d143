package serve

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// FuzzDecodeInfer decodes JSON with binary data after it. A request that decodes is encoded
// as a response, and its inputs decode from that to the same.
func FuzzDecodeInfer(f *testing.F) {
	for _, x := range samples {
		f.Add([]byte(`{"inputs":[{"name":"x","shape":[2],"datatype":"`+x.datatype+`","data":[`+x.json+`]}]}`), []byte(nil))
		f.Add([]byte(`{"inputs":[{"name":"x","shape":[2],"datatype":"`+x.datatype+`","parameters":{"binary_data_size":8}}]}`), []byte(x.raw))
	}
	f.Add([]byte(`{"outputs":[{"name":"y","parameters":{"classification":3,"binary_data":true}}],"parameters":{"priority":"3","timeout":1}}`), []byte("x"))
	f.Fuzz(func(t *testing.T, header, binary []byte) {
		r, err := decodeInfer(t.Context(), header, binary, nil)
		if err != nil || len(r.shared) > 0 {
			return
		}
		resp := &response{model: "m", version: "1"}
		for _, in := range r.inputs {
			resp.outputs = append(resp.outputs, result{name: in.name, value: in.value, binary: true})
		}
		head, parts, err := encodeInfer(resp)
		if err != nil {
			t.Fatal(err)
		}
		head = []byte(strings.Replace(string(head), `"outputs":`, `"inputs":`, 1))
		var m map[string]json.RawMessage
		if err := json.Unmarshal(head, &m); err != nil {
			t.Fatalf("%v: %s", err, head)
		}
		again, err := decodeInfer(t.Context(), append([]byte(`{"inputs":`), append(m["inputs"], '}')...),
			bytes.Join(parts, nil), nil)
		if err != nil {
			t.Fatalf("%v: %s", err, head)
		}
		for i, in := range again.inputs {
			if !bytes.Equal(encodeRaw(in.value), encodeRaw(r.inputs[i].value)) {
				t.Fatalf("input %d differs", i)
			}
		}
	})
}

func FuzzDecodeRaw(f *testing.F) {
	for i, x := range samples {
		f.Add(uint8(i), int64(2), []byte(x.raw))
	}
	f.Fuzz(func(t *testing.T, kind uint8, dim int64, data []byte) {
		d := datatypes[int(kind)%len(datatypes)]
		v, err := decodeRaw(d.dtype, []int64{dim}, data)
		if err == nil && (v.DType() != d.dtype || int64(v.Len()) != dim || !bytes.Equal(encodeRaw(v), data)) {
			t.Fatalf("%s of %q: %v", d.name, data, v)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	for _, x := range samples {
		b, err := proto.Marshal(message("m", x.datatype, []int64{2}, x.raw))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := one(f, scaled(f, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(inference.ModelInferRequest)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		r, err := decodeMessage(m, nil)
		if err != nil {
			return
		}
		r.model, r.version = "m", ""
		s.infer(t.Context(), r)
	})
}

func FuzzConfig(f *testing.F) {
	f.Add(`max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 }`)
	f.Add(`input { name: "x" dims: [ 2 ] } instance_group { count: 2 } version_policy { all {} }`)
	f.Add(`max_batch_size: 8 dynamic_batching { default_priority_level: 2 }`)
	data := scaled(f, 1)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig([]byte(text))
		if err != nil {
			return
		}
		s := &Server{memory: onward.NewMemoryBudget(0)}
		v, err := s.openVersion(t.Context(), "m", 1, "", data, "", c)
		if err != nil {
			return
		}
		defer v.session.Close()
		for _, in := range v.inputs.list {
			if in.dtype != tensor.TypeFloat32 {
				t.Fatalf("input %v", in)
			}
		}
		if p := v.policy; p.instances < 1 || len(p.levels) < 1 || p.priority >= len(p.levels) {
			t.Fatalf("policy %+v", p)
		}
	})
}

// FuzzTexts sends bodies to the endpoints of model folders. None fails the server, and all give
// their memory back.
func FuzzTexts(f *testing.F) {
	s := newServer(f, folders(f, "embedder", "sparse", "reranker", "classifier"), nil)
	var paths []string
	for _, e := range append(teiEndpoints(), openAIEndpoints()...) {
		paths = append(paths, e.paths[0])
	}
	used := s.memory.Used()
	for i, body := range []string{`{"inputs":["a",[2,3]],"truncate":false,"normalize":null,"dimensions":1}`,
		`{"inputs":"a","prompt_name":null,"truncation_direction":"left"}`, `{"inputs":[["a"],["b","c"]],"raw_scores":true}`,
		`{"query":"a","texts":["b"],"return_text":true}`, `{"query":"a","documents":["b",{"text":"c"}],"top_n":1}`,
		`{"inputs":{"source_sentence":"a","sentences":["b"]},"parameters":{"truncate":true}}`,
		`{"ids":[[1,2],[3]],"skip_special_tokens":false}`, `{"input":[1,2],"encoding_format":"base64","user":"u"}`} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		path := paths[int(i)%len(paths)]
		w := call(s, "POST", path, body)
		if w.Code >= 500 && w.Code != 503 || w.Code == 424 && !bytes.Contains(w.Body.Bytes(), []byte("served")) {
			t.Fatalf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
		if n := s.memory.Used(); n > used+1<<20 {
			t.Fatalf("%s %q: %d bytes are reserved after the request", path, body, n)
		}
	})
}
