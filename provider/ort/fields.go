package ort

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/tensor"
)

// takeFields copies the fields of SessionOptions. Options of the provider override them
// later.
func (s *settings) takeFields(o *driver.Options) {
	s.common["intra_op_num_threads"] = strconv.Itoa(max(o.Threads, 0))
	if o.InterOpThreads > 0 {
		s.common["inter_op_num_threads"] = strconv.Itoa(o.InterOpThreads)
	}
	if o.ExecutionMode == driver.ExecutionParallel {
		s.common["execution_mode"] = "parallel"
	}
	s.common["graph_optimization_level"] = o.OptimizationLevel.String()
	s.common["optimized_model_filepath"] = o.OptimizedModelPath
	if o.EnableProfiling {
		s.common["profile_file_prefix"] = o.ProfilePrefix
	}
	if o.DisableMemoryPattern {
		s.common["enable_mem_pattern"] = "False"
	}
	if o.DisableMemoryArena {
		s.common["enable_cpu_mem_arena"] = "False"
	}
	s.common["log_severity_level"] = strconv.Itoa(severity(o))
	if o.Precision == driver.PrecisionBFloat16 { // ignored by builds for other processors than arm64
		s.entries["mlas.enable_gemm_fastmath_arm64_bfloat16"] = "1"
	}
	maps.Copy(s.dims, o.FreeDimensions)
	maps.Copy(s.entries, o.Config)
	if len(o.DisabledPasses) > 0 {
		all := o.DisabledPasses
		if more := s.entries[driver.ConfigDisabledPasses]; more != "" {
			all = append(slices.Clone(all), more)
		}
		s.entries[driver.ConfigDisabledPasses] = strings.Join(all, ";")
	}
	for name, set := range map[string]bool{"ExecutionOrder": o.ExecutionOrder != driver.OrderDefault,
		"DisableMemoryReuse": o.DisableMemoryReuse} {
		if set {
			o.Log().Warn("option ignored: ONNX Runtime's C API does not have it", "option", name)
		}
	}
}

// severity returns ONNX Runtime's log level. By default only fatal errors are logged:
// other errors are returned.
func severity(o *driver.Options) int {
	if o.LogSeverity == driver.LogDefault {
		return int(driver.LogFatal) - 1
	}
	return int(o.LogSeverity) - 1
}

// setFields sets the fields of SessionOptions that have no provider option.
func (r *library) setFields(o uintptr, s *settings) error {
	fields := s.session
	if err := r.do(fnSetSessionLogID, o, uintptr(unsafe.Pointer(dl.CString(s.logID)))); err != nil {
		return err
	}
	if fields.LogVerbosity > 0 {
		if err := r.do(fnSetSessionLogVerbosityLevel, o, uintptr(fields.LogVerbosity)); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(fields.FreeDimensionsByDenotation)) {
		if err := r.do(fnAddFreeDimensionOverride, o, uintptr(unsafe.Pointer(dl.CString(k))),
			uintptr(fields.FreeDimensionsByDenotation[k])); err != nil {
			return err
		}
	}
	if fields.Deterministic {
		if r.api < sinceDeterministic {
			return &driver.StatusError{Code: driver.CodeNotImplemented,
				Message: fmt.Sprintf("deterministic computation needs ONNX Runtime 1.%d or later, got %s",
					sinceDeterministic, r.version)}
		}
		return r.do(fnSetDeterministicCompute, o, 1)
	}
	return nil
}

// addInitializers adds initializers to session options. ONNX Runtime reads the tensors
// without a copy while the session lives.
func (s *session) addInitializers(opts uintptr, values map[string]tensor.Value) error {
	st := new(state)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t, ok := values[name].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("initializer %s must be a tensor", name)
		}
		v, err := s.lib.value(st, t, t.Type())
		if err != nil {
			return fmt.Errorf("initializer %s: %w", name, err)
		}
		s.keep, s.values = append(s.keep, t), append(s.values, v)
		if err := s.lib.do(fnAddInitializer, opts, uintptr(unsafe.Pointer(dl.CString(name))), v); err != nil {
			return fmt.Errorf("initializer %s: %w", name, err)
		}
	}
	return nil
}

// makeRunOptions creates the OrtRunOptions of a run if they do not exist yet.
func (s *session) makeRunOptions(st *state) error {
	if st.opts != 0 {
		return nil
	}
	return s.lib.do(fnCreateRunOptions, uintptr(unsafe.Pointer(&st.opts)))
}

// runOptions creates OrtRunOptions if o differs from ONNX Runtime's defaults.
func (s *session) runOptions(st *state, o *driver.RunOptions) error {
	if o.Tag == "" && o.LogSeverity == driver.LogDefault && o.LogVerbosity == 0 && len(o.Config) == 0 {
		return nil
	}
	if err := s.makeRunOptions(st); err != nil {
		return err
	}
	r := s.lib
	if o.Tag != "" {
		if err := r.do(fnSetRunTag, st.opts, uintptr(unsafe.Pointer(dl.CString(o.Tag)))); err != nil {
			return err
		}
	}
	if o.LogSeverity != driver.LogDefault {
		if err := r.do(fnSetRunLogSeverityLevel, st.opts, uintptr(o.LogSeverity-1)); err != nil {
			return err
		}
	}
	if o.LogVerbosity > 0 {
		if err := r.do(fnSetRunLogVerbosityLevel, st.opts, uintptr(o.LogVerbosity)); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(o.Config)) {
		if err := r.do(fnAddRunConfigEntry, st.opts, uintptr(unsafe.Pointer(dl.CString(k))),
			uintptr(unsafe.Pointer(dl.CString(o.Config[k])))); err != nil {
			return err
		}
	}
	return nil
}

// EndProfiling ends ONNX Runtime's profile and returns its file name.
func (s *session) EndProfiling() (string, error) {
	r := s.lib
	p := new(uintptr)
	if err := r.do(fnSessionEndProfiling, s.handle, r.allocator, uintptr(unsafe.Pointer(p))); err != nil {
		return "", err
	}
	name := dl.String(*p)
	return name, r.do(fnAllocatorFree, r.allocator, *p)
}

// ProfilingStart returns the time at which profiling began, in nanoseconds of ONNX
// Runtime's clock.
func (s *session) ProfilingStart() (int64, error) {
	t := new(uint64)
	err := s.lib.do(fnSessionGetProfilingStartTimeNs, s.handle, uintptr(unsafe.Pointer(t)))
	return int64(*t), err
}
