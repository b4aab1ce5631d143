package openvino

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/provider/internal/native"
)

// options lists the options of the package comment, except OpenVINO's own properties, with
// their types and the properties that they set.
var options = map[string]struct {
	kind     native.Kind
	property string // "" if the option sets no property
}{
	"library":        {native.Text, ""},
	"device":         {device, ""},
	"requests":       {positive, ""},
	"hint":           {native.OneOf("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT", "UNDEFINED"), "PERFORMANCE_HINT"},
	"streams":        {streams, "NUM_STREAMS"},
	"threads":        {native.Count, "INFERENCE_NUM_THREADS"},
	"precision":      {native.OneOf("f32", "f16", "bf16", "device"), "INFERENCE_PRECISION_HINT"},
	"execution_mode": {native.OneOf("PERFORMANCE", "ACCURACY"), "EXECUTION_MODE_HINT"},
	"cache_dir":      {native.Text, "CACHE_DIR"},
}

var (
	deviceName   = regexp.MustCompile(`^[A-Z]+(\.[0-9A-Za-z]+)*(\([0-9]+\))?(:.+)?$`)
	propertyName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

func device(s string) (string, error) {
	if u := strings.ToUpper(s); deviceName.MatchString(u) {
		return u, nil
	}
	return "", fmt.Errorf("%q is not a device, want CPU, GPU, GPU.1, NPU, AUTO, AUTO:GPU,CPU, …", s)
}

func positive(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not an integer from 1 to 65535", s)
	}
	return s, nil
}

func streams(s string) (string, error) {
	if strings.EqualFold(s, "auto") {
		return "AUTO", nil
	}
	return positive(s)
}

// settings are the checked options of one session.
type settings struct {
	device     string
	requests   int // 0 for OpenVINO's recommendation
	properties map[string]string
	fixed      map[string][]int64 // dimensions of inputs, see fixedDims
}

func parse(opts *driver.Options, config driver.Config) (*settings, error) {
	s := &settings{device: "CPU", properties: map[string]string{}}
	own := map[string]string{}
	for name, value := range config.Options {
		o, ok := options[name]
		kind, into := o.kind, own
		if !ok && propertyName.MatchString(name) {
			kind, into = native.Text, s.properties
		} else if !ok {
			return nil, native.Invalid(
				"provider openvino has no option %q; it has %s, and OpenVINO's own properties in capitals", name,
				strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		v, err := native.Check("openvino", name, value, kind)
		if err != nil {
			return nil, err
		}
		into[name] = v
	}
	if own["device"] != "" {
		s.device = own["device"]
	}
	s.requests, _ = strconv.Atoi(own["requests"]) // checked
	if own["threads"] == "" && opts.Threads > 0 && s.device == "CPU" {
		own["threads"] = strconv.Itoa(opts.Threads)
	}
	if own["precision"] == "" && !strings.Contains(s.device, "NPU") {
		own["precision"] = "f32"
		if opts.Precision == driver.PrecisionBFloat16 && s.device == "CPU" {
			own["precision"] = "bf16"
		}
	}
	if own["precision"] == "device" {
		delete(own, "precision")
	}
	if own["hint"] == "" && own["streams"] == "" {
		own["hint"] = "LATENCY"
	}
	for name, v := range own {
		p := options[name].property
		if p == "" {
			continue
		}
		if _, twice := s.properties[p]; twice {
			if config.Options[name] != "" {
				return nil, native.Invalid("options %s and %s of provider openvino set the same property", name, p)
			}
			continue // a default
		}
		s.properties[p] = v
	}
	return s, nil
}
