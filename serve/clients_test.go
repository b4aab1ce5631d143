package serve

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// pythonOfClients returns the Python that make test-clients installs Triton's clients for.
func pythonOfClients(t *testing.T) string {
	python := os.Getenv("ONWARD_TRITONCLIENT")
	if python == "" {
		t.Skip("ONWARD_TRITONCLIENT is not set: Triton's clients are not tested; make test-clients does")
	}
	return python
}

// listen serves a server on loopback and returns its addresses.
func listen(t *testing.T, s *Server) (rest, rpc string) {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return strings.TrimPrefix(web.URL, "http://"), l.Addr().String()
}

// TestTritonClient calls the server with Triton's Python clients, which make test-clients installs.
func TestTritonClient(t *testing.T) {
	python := pythonOfClients(t)
	config := []byte("max_batch_size: 8 dynamic_batching {}")
	s := newServer(t,
		writeRepo(t, map[string][]byte{"simple/config.pbtxt": config,
			"simple/1/model.onnx":          simple(t, tensor.TypeInt32, "n", 16),
			"simple_identity/config.pbtxt": config, "simple_identity/1/model.onnx": identity(t, tensor.TypeString, "n", 16)}), &Options{AllowModelControl: true})
	rest, rpc := listen(t, s)
	checkClients(t, exec.CommandContext(t.Context(), python, "testdata/clients.py", rest, rpc))
}

// exampleModels returns the models of Triton's examples, made of ONNX operators: those that the
// example repository has in the formats of other frameworks compute the same.
func exampleModels(t *testing.T) map[string][]byte {
	const i32, str = onnx.Int32, onnx.String
	batched := []byte("max_batch_size: 8")
	files := map[string][]byte{}
	add := func(name, config string, model []byte) {
		files[name+"/1/model.onnx"] = model
		files[name+"/config.pbtxt"] = append(slices.Clone(batched), config...)
	}
	build := func(name string) *onnx.ModelBuilder { return onnx.NewModel(name).Opset("", 17).IRVersion(8) }
	add("simple", "", simple(t, tensor.TypeInt32, "n", 16))
	add("simple_int8", "", simple(t, tensor.TypeInt8, "n", 16))

	b := build("simple_string")
	for i, op := range []string{"Add", "Sub"} {
		in, out := fmt.Sprintf("INPUT%d", i), fmt.Sprintf("OUTPUT%d", i)
		b.Input(in, str, "n", 16).Output(out, str, "n", 16)
		b.Node("Cast", []string{in}, []string{in + "_int"}, onnx.Attrs{"to": int64(i32)})
		b.Node(op, []string{"INPUT0_int", "INPUT1_int"}, []string{out + "_int"})
		b.Node("Cast", []string{out + "_int"}, []string{out}, onnx.Attrs{"to": int64(str)})
	}
	add("simple_string", "", modelBytes(t, b))

	b = build("simple_identity")
	b.Input("INPUT0", str, "n", "m").Output("OUTPUT0", str, "n", "m")
	b.Node("Identity", []string{"INPUT0"}, []string{"OUTPUT0"})
	add("simple_identity", "", modelBytes(t, b))

	b = build("custom_identity_int32")
	b.Input("INPUT0", i32, "n", "m").Output("OUTPUT0", i32, "n", "m")
	b.Node("Identity", []string{"INPUT0"}, []string{"OUTPUT0"})
	add("custom_identity_int32", "", modelBytes(t, b))

	b = build("simple_sequence") // adds 1 to the first input of a sequence
	b.Input("INPUT", i32, "n", 1).Input("START", i32, "n", 1).Output("OUTPUT", i32, "n", 1)
	b.Node("Add", []string{"INPUT", "START"}, []string{"OUTPUT"})
	const start = `control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }`
	const end = `control_input { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [0, 1] } }`
	const id = `control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: %s } }`
	const idle = ` sequence_batching { max_sequence_idle_microseconds: 5000000 `
	add("simple_sequence", idle+start+"}", modelBytes(t, b))

	b = build("simple_dyna_sequence") // and the correlation ID to the last one
	for _, name := range []string{"INPUT", "START", "END"} {
		b.Input(name, i32, "n", 1)
	}
	b.Input("CORRID", onnx.Uint64, "n", 1).Output("OUTPUT", i32, "n", 1)
	b.Node("Cast", []string{"CORRID"}, []string{"id"}, onnx.Attrs{"to": int64(i32)})
	b.Node("Mul", []string{"id", "END"}, []string{"last"})
	b.Node("Add", []string{"INPUT", "START"}, []string{"first"})
	b.Node("Add", []string{"first", "last"}, []string{"OUTPUT"})
	add("simple_dyna_sequence", idle+start+end+fmt.Sprintf(id, "TYPE_UINT64")+"oldest { max_candidate_sequences: 4 } }",
		modelBytes(t, b))

	b = build("simple_string_dyna_sequence") // accumulates, and adds the correlation ID to the last one
	for _, name := range []string{"INPUT", "END", "TOTAL"} {
		b.Input(name, i32, "n", 1)
	}
	b.Input("CORRID", str, "n", 1).Output("OUTPUT", i32, "n", 1).Output("NEXT", i32, "n", 1)
	b.Node("Cast", []string{"CORRID"}, []string{"id"}, onnx.Attrs{"to": int64(i32)})
	b.Node("Mul", []string{"id", "END"}, []string{"last"})
	b.Node("Add", []string{"INPUT", "TOTAL"}, []string{"NEXT"})
	b.Node("Add", []string{"NEXT", "last"}, []string{"OUTPUT"})
	add("simple_string_dyna_sequence", idle+end+fmt.Sprintf(id, "TYPE_STRING")+`state { input_name: "TOTAL" output_name: "NEXT" } oldest { max_candidate_sequences: 4 } }`, modelBytes(t, b))

	b = build("densenet_onnx") // of the same inputs and outputs
	b.Input("data_0", onnx.Float, 3, 224, 224).Output("fc6_1", onnx.Float, 1, 1, 1)
	b.Node("ReduceMean", []string{"data_0"}, []string{"fc6_1"})
	files["densenet_onnx/1/model.onnx"] = modelBytes(t, b)
	return files
}

// addColors adds a classifier of images: the mean of each channel, with the labels
// red, green and blue.
func addColors(t *testing.T, models map[string][]byte) {
	b := onnx.NewModel("colors").Opset("", 17).IRVersion(8)
	b.Input("data", onnx.Float, "n", 3, 32, 32).Output("color", onnx.Float, "n", 3)
	b.Node("GlobalAveragePool", []string{"data"}, []string{"mean"})
	b.Node("Flatten", []string{"mean"}, []string{"color"})
	models["colors/1/model.onnx"] = modelBytes(t, b)
	models["colors/labels.txt"] = []byte("red\ngreen\nblue\n")
	models["colors/config.pbtxt"] = []byte(`max_batch_size: 8
input { name: "data" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [3, 32, 32] }
output { name: "color" data_type: TYPE_FP32 dims: [3] label_filename: "labels.txt" }`)
}

// redImage returns an image that is mostly red, with some green.
func redImage(t *testing.T) []byte {
	m := image.NewRGBA(image.Rect(0, 0, 40, 30))
	draw.Draw(m, m.Bounds(), image.NewUniform(color.RGBA{200, 50, 10, 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTritonExamples runs the example programs of Triton's Python client unchanged.
func TestTritonExamples(t *testing.T) {
	python, folder := pythonOfClients(t), os.Getenv("ONWARD_TRITONEXAMPLES")
	scripts, err := filepath.Glob(filepath.Join(folder, "*.py"))
	if err != nil || folder == "" || len(scripts) == 0 {
		t.Skipf("%q holds no examples of Triton's client: they are not tested (%v)", folder, err)
	}
	skip := map[string]string{
		"ensemble_image_client":     "needs a TensorFlow model",
		"simple_grpc_custom_repeat": "decoupled model: more than one response per request", "vllm_client": "decoupled model",
		"memory_growth_test": "has fixed addresses",
	}
	runs, passed := 0, map[string]bool{}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".py")
		if strings.Contains(name, "cudashm") {
			skip[name] = "needs a GPU"
		}
		variants := [][]string{nil}
		switch {
		case strings.Contains(name, "sequence"):
			variants = append(variants, []string{"-d"}) // the dynamic sequence models
		case name == "reuse_infer_objects_client":
			variants = [][]string{{"-i", "http"}, {"-i", "grpc"}}
		case name == "image_client":
			variants = [][]string{{"-i", "http", "-b", "2"}, {"-i", "http", "-a"}, {"-i", "grpc", "-s", "INCEPTION"},
				{"-i", "grpc", "--streaming"}}
		}
		for _, args := range variants {
			t.Run(strings.Join(append([]string{name}, args...), " "), func(t *testing.T) {
				if reason := skip[name]; reason != "" {
					t.Skip(reason)
				}
				models := exampleModels(t)
				remove := func(m string) {
					delete(models, m+"/config.pbtxt")
					delete(models, m+"/1/model.onnx")
				}
				if strings.Contains(name, "model_control") { // these count the models: 7 or 8
					remove("densenet_onnx")
					if strings.Contains(name, "http") {
						remove("custom_identity_int32")
					}
				}
				if strings.HasSuffix(name, "image_client") {
					addColors(t, models)
					image := filepath.Join(t.TempDir(), "red.png")
					if err := os.WriteFile(image, redImage(t), 0o666); err != nil {
						t.Fatal(err)
					}
					args = append(slices.Clone(args), "-m", "colors", "-c", "3", image)
				}
				s := newServer(t, writeRepo(t, models),
					&Options{AllowModelControl: true, AllowSharedMemory: true, Name: "triton"})
				rest, rpc := listen(t, s)
				url := rest
				if strings.Contains(name, "grpc") || slices.Contains(args, "grpc") {
					url = rpc
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				out, err := exec.CommandContext(ctx, python, append([]string{script, "-u", url}, args...)...).
					CombinedOutput()
				if err != nil || strings.Contains(string(out), "FAIL") {
					t.Errorf("%v\n%s", err, out)
					return
				}
				if strings.HasSuffix(name, "image_client") {
					_, classes, _ := strings.Cut(string(out), "(0) = ")
					if !strings.HasPrefix(classes, "red") || !strings.Contains(classes, "(2) = blue") {
						t.Errorf("the classes of a red image are not red, green and blue:\n%s", out)
					}
				}
				runs++
				passed[name] = true
			})
		}
	}
	t.Logf("%d runs of %d of %d examples passed", runs, len(passed), len(scripts))
}
