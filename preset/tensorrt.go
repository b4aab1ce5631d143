package preset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// CalibrationTable is a table of the ranges of tensors, such as *calibration.Table or
// [TableFile].
type CalibrationTable interface {
	// WriteFlatBuffers writes the table in the format of ONNX Runtime's TensorRT
	// execution provider, a FlatBuffers TrtTable of names and ranges.
	WriteFlatBuffers(w io.Writer) error
}

// ShapeRange bounds the shapes of an input, axis by axis.
type ShapeRange struct{ Min, Max []int }

// tensorRT holds the fields of all presets of TensorRT.
type tensorRT struct {
	name    string
	model   Model
	example backend.Inputs
	options map[string]string
	profile map[string]ShapeRange
	cache   string
	table   CalibrationTable
	int8    bool // scales are in the table
	qdq     bool // scales are in the model
}

func (t tensorRT) plan() *plan {
	p := &plan{name: t.name, config: onward.ProviderConfig{Name: "ort:tensorrt", Options: t.options}, model: t.model,
		example: t.example,
		binds:   true, demands: true, dynamic: map[string]bool{}, finish: t.finish}
	for name := range t.profile {
		p.dynamic[name] = true
	}
	if t.int8 {
		p.table = func() ([]byte, error) { return flatBuffers(t.table) }
	}
	return p
}

// finish sets the options that depend on the model: the profile, the folder and the names
// of the engine cache, and the calibration table, which must be in that folder.
func (t tensorRT) finish(p *plan, m *onnx.Model, example onward.Values) error {
	o := options(t.options)
	p.config.Options = o
	d, err := onward.Describe(m)
	if err != nil {
		return err
	}
	if err := t.setProfile(o, d, example); err != nil {
		return err
	}
	if t.qdq {
		if err := wantsQDQ(p, m, nil); err != nil {
			return err
		}
	}
	var table []byte
	if t.int8 {
		if table, err = flatBuffers(t.table); err != nil {
			return fmt.Errorf("calibration table: %w", err)
		}
	}
	folder := o["trt_engine_cache_path"]
	if folder == "" {
		// ONNX Runtime names a cached engine by the graph alone. A folder for each hash
		// keeps it from being used for a model with other weights.
		sum, err := modelHash(p.model, m)
		if err != nil {
			return err
		}
		if folder, err = cacheFolder(t.cache, "tensorrt", sum[:32]); err != nil {
			if t.cache != "" || t.int8 {
				return fmt.Errorf("folder of the engine cache: %w", err)
			}
			return nil // engines are built each time
		}
		o["trt_engine_cache_path"] = folder
		if o["trt_engine_cache_enable"] == "" {
			o["trt_engine_cache_enable"] = "True"
		}
	}
	if t.int8 {
		sum := sha256.Sum256(table)
		name := "calibration-" + hex.EncodeToString(sum[:8]) + ".flatbuffers"
		if err := atomicfile.WriteBytes(filepath.Join(folder, name), 0o600, table); err != nil {
			return fmt.Errorf("calibration table: %w", err)
		}
		o["trt_int8_calibration_table_name"] = name
		o["trt_int8_use_native_calibration_table"] = "False"
		if o["trt_engine_cache_prefix"] == "" {
			// An engine contains the ranges of its table.
			o["trt_engine_cache_prefix"] = "int8-" + hex.EncodeToString(sum[:8])
		}
	}
	// ONNX Runtime names a cached engine by the graph of the file, without the shapes that the
	// example fixes, but an engine is built for them.
	if shapes := t.shapes(d, example); shapes != "" {
		o["trt_engine_cache_prefix"] = strings.TrimPrefix(o["trt_engine_cache_prefix"]+"_"+shapes, "_")
	}
	return nil
}

// shapes returns the shapes of the inputs as a part of a file name, such as
// "1x3x224x224_1x8", and "" for a model without dynamic axes.
func (t tensorRT) shapes(d *onward.Description, example onward.Values) string {
	if openAxes(d.Inputs) == "" {
		return ""
	}
	var all []string
	for _, a := range d.Inputs {
		x, ok := example[a.Name].(*tensor.Tensor)
		if !ok {
			continue
		}
		text := sizes(x.Shape())
		if r, ok := t.profile[a.Name]; ok {
			text = sizes(r.Min) + "-" + text + "-" + sizes(r.Max)
		}
		all = append(all, text)
	}
	name := strings.Join(all, "_")
	const most = 80 // file names are limited, mostly to 255 bytes
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = "shapes-" + hex.EncodeToString(sum[:8])
	}
	return name
}

// setProfile sets TensorRT's optimization profile for the inputs with dynamic axes.
func (t tensorRT) setProfile(o map[string]string, d *onward.Description, example onward.Values) error {
	if len(t.profile) == 0 {
		return nil
	}
	var min, opt, max []string
	for _, name := range slices.Sorted(maps.Keys(t.profile)) {
		r := t.profile[name]
		i := slices.IndexFunc(d.Inputs, func(a onward.NodeArg) bool { return a.Name == name })
		if i < 0 {
			return fmt.Errorf("Profile: the model has no input %q", name)
		}
		if strings.ContainsAny(name, ":,") {
			return fmt.Errorf("Profile: input %q: TensorRT's execution provider does not support names with ':' or ','",
				name)
		}
		x, _ := example[name].(*tensor.Tensor)
		if x == nil {
			return fmt.Errorf("Profile: input %q: the InputExample has no tensor for it", name)
		}
		shape := x.Shape()
		if len(r.Min) != len(shape) || len(r.Max) != len(shape) {
			return fmt.Errorf("Profile: input %q has rank %d, got Min %v and Max %v", name, len(shape), r.Min, r.Max)
		}
		for k, n := range shape {
			if r.Min[k] < 0 || r.Min[k] > n || n > r.Max[k] {
				return fmt.Errorf("Profile: axis %d of input %q is %d in the InputExample, want %d to %d", k, name, n,
					r.Min[k], r.Max[k])
			}
			if fixed := d.Inputs[i].Shape; fixed != nil && fixed[k].Value >= 0 && (r.Min[k] != n || r.Max[k] != n) {
				return fmt.Errorf("Profile: axis %d of input %q has the fixed size %d, got the range %d to %d", k, name,
					n, r.Min[k], r.Max[k])
			}
		}
		min, opt, max = append(min, name+":"+sizes(r.Min)), append(opt, name+":"+sizes(shape)),
			append(max, name+":"+sizes(r.Max))
	}
	o["trt_profile_min_shapes"], o["trt_profile_opt_shapes"], o["trt_profile_max_shapes"] = strings.Join(min, ","),
		strings.Join(opt, ","), strings.Join(max, ",")
	return nil
}

// sizes formats a shape as 1x3x224x224.
func sizes(shape []int) string {
	s := make([]string, len(shape))
	for i, n := range shape {
		s[i] = strconv.Itoa(n)
	}
	return strings.Join(s, "x")
}

// TableFile is the path of a calibration table in FlatBuffers form.
type TableFile string

// The sizes of a calibration table's file in bytes. The least one holds the root's
// offset, an empty table and its vtable.
const (
	minTable = 12
	maxTable = 256 << 20
)

// WriteFlatBuffers copies the file, which must be a regular one.
func (f TableFile) WriteFlatBuffers(w io.Writer) error {
	st, err := os.Stat(string(f)) // before Open, which would wait for the writer of a pipe
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%q is not a regular file", string(f))
	case st.Size() < minTable || st.Size() > maxTable:
		return fmt.Errorf("%q has %d bytes, want %d to %d in FlatBuffers form", string(f), st.Size(),
			minTable, maxTable)
	}
	file, err := os.Open(string(f))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, io.LimitReader(file, maxTable))
	return err
}

// flatBuffers returns a calibration table as FlatBuffers.
func flatBuffers(table CalibrationTable) ([]byte, error) {
	if table == nil {
		return nil, errors.New("the field Table is not set")
	}
	var b bytes.Buffer
	err := table.WriteFlatBuffers(&b)
	return b.Bytes(), err
}

// OrtTensorRT runs a model on ONNX Runtime's TensorRT execution provider
// (OrtTensorrtBackend). Operators that TensorRT does not support run on CUDA. InputExample
// is required for models with dynamic axes. The first launch can take minutes, while
// TensorRT builds its engines; they are cached in a folder.
type OrtTensorRT struct {
	Model           Model
	ProviderOptions map[string]string
	InputExample    backend.Inputs
	// Profile keeps the axes of some inputs dynamic within ranges. TensorRT builds
	// engines for all shapes in the ranges, optimized for those of the example. It sets
	// trt_profile_min_shapes, trt_profile_opt_shapes and trt_profile_max_shapes.
	Profile map[string]ShapeRange
	// CacheDir is the folder of the engine cache. Default: onward/tensorrt in the user's
	// cache folder.
	CacheDir string
}

// Name returns "OrtTensorRT".
func (OrtTensorRT) Name() string { return "OrtTensorRT" }

// Open loads the model.
func (p OrtTensorRT) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtTensorRT) plan() *plan {
	return tensorRT{name: p.Name(), model: p.Model, example: p.InputExample, options: p.ProviderOptions,
		profile: p.Profile, cache: p.CacheDir}.plan()
}

// OrtTensorRTFloat is [OrtTensorRT] with its default options, in float32
// (OrtTensorrtFloatBackend).
type OrtTensorRTFloat struct {
	Model        Model
	InputExample backend.Inputs
	Profile      map[string]ShapeRange // see OrtTensorRT
	CacheDir     string                // see OrtTensorRT
	// DeviceID is the number of the GPU.
	DeviceID int
}

// Name returns "OrtTensorRTFloat".
func (OrtTensorRTFloat) Name() string { return "OrtTensorRTFloat" }

// Open loads the model.
func (p OrtTensorRTFloat) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtTensorRTFloat) plan() *plan {
	return tensorRT{name: p.Name(), model: p.Model, example: p.InputExample, profile: p.Profile, cache: p.CacheDir,
		options: onDevice(p.DeviceID)}.plan()
}

// OrtTensorRTFloatOptim is [OrtTensorRT] with the faster of float16 and float32 for each
// layer (OrtTensorrtFloatOptimBackend). On a GPU without float16, TensorRT uses float32.
type OrtTensorRTFloatOptim struct {
	Model        Model
	InputExample backend.Inputs
	Profile      map[string]ShapeRange // see OrtTensorRT
	CacheDir     string                // see OrtTensorRT
	// DeviceID is the number of the GPU.
	DeviceID int
}

// Name returns "OrtTensorRTFloatOptim".
func (OrtTensorRTFloatOptim) Name() string { return "OrtTensorRTFloatOptim" }

// Open loads the model.
func (p OrtTensorRTFloatOptim) Open(ctx context.Context) (*backend.Rep, error) {
	return p.plan().open(ctx)
}

func (p OrtTensorRTFloatOptim) plan() *plan {
	return tensorRT{name: p.Name(), model: p.Model, example: p.InputExample, profile: p.Profile, cache: p.CacheDir,
		options: options(map[string]string{"trt_fp16_enable": "True"}, onDevice(p.DeviceID))}.plan()
}

// OrtTensorRTInt8 is [OrtTensorRT] in 8-bit integers with a calibration table
// (OrtTensorrtInt8Backend).
type OrtTensorRTInt8 struct {
	Model Model
	// Table is the calibration table, such as a *calibration.Table, or a [TableFile].
	Table        CalibrationTable
	InputExample backend.Inputs
	// NoFP16 runs layers that are not quantized in float32. Default: float16 if the GPU
	// supports it.
	NoFP16   bool
	Profile  map[string]ShapeRange // see OrtTensorRT
	CacheDir string                // see OrtTensorRT; the table is written there too
	// DeviceID is the number of the GPU.
	DeviceID int
}

// Name returns "OrtTensorRTInt8".
func (OrtTensorRTInt8) Name() string { return "OrtTensorRTInt8" }

// Open loads the model.
func (p OrtTensorRTInt8) Open(ctx context.Context) (*backend.Rep, error) { return p.plan().open(ctx) }

func (p OrtTensorRTInt8) plan() *plan {
	return tensorRT{name: p.Name(), model: p.Model, example: p.InputExample, profile: p.Profile, cache: p.CacheDir,
		table: p.Table, int8: true, options: options(int8Options(p.NoFP16), onDevice(p.DeviceID))}.plan()
}

// OrtTensorRTInt8QDQ is [OrtTensorRT] in 8-bit integers with the scales in the
// QuantizeLinear and DequantizeLinear nodes of the model (OrtTensorrtInt8QDQBackend). A
// model without them is an error.
type OrtTensorRTInt8QDQ struct {
	Model        Model
	InputExample backend.Inputs
	// NoFP16 runs layers that are not quantized in float32. Default: float16 if the GPU
	// supports it.
	NoFP16   bool
	Profile  map[string]ShapeRange // see OrtTensorRT
	CacheDir string                // see OrtTensorRT
	// DeviceID is the number of the GPU.
	DeviceID int
}

// Name returns "OrtTensorRTInt8QDQ".
func (OrtTensorRTInt8QDQ) Name() string { return "OrtTensorRTInt8QDQ" }

// Open loads the model.
func (p OrtTensorRTInt8QDQ) Open(ctx context.Context) (*backend.Rep, error) {
	return p.plan().open(ctx)
}

func (p OrtTensorRTInt8QDQ) plan() *plan {
	return tensorRT{name: p.Name(), model: p.Model, example: p.InputExample, profile: p.Profile, cache: p.CacheDir,
		qdq: true, options: options(int8Options(p.NoFP16), onDevice(p.DeviceID))}.plan()
}

func int8Options(noFP16 bool) map[string]string {
	o := map[string]string{"trt_int8_enable": "True", "trt_fp16_enable": "True"}
	if noFP16 {
		o["trt_fp16_enable"] = "False"
	}
	return o
}
