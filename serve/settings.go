package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/onward-ml/onward/serve/inference"
)

// settings holds what clients can change by Triton's trace and logging extensions.
type settings struct {
	mu     sync.Mutex
	global traceSetting
	models map[string]*traceSetting // models with settings of their own
	tracer bool                     // whether there is a tracer

	info, warning, errors atomic.Bool
	verbose               atomic.Uint32
}

// traceSetting selects the requests that are traced. A nil field stands for the global setting, and
// there for the default.
type traceSetting struct {
	on          *bool
	rate, count *int64 // trace every rate-th request; traces left, −1 for no limit
	seen        int64  // requests since the setting changed
}

// resolve returns the effective settings of a model, or the global ones for "". s.mu is held.
func (s *settings) resolve(model string) (on bool, rate, count int64, from *traceSetting) {
	on, rate, count = s.tracer, 1, -1
	for _, t := range []*traceSetting{&s.global, s.models[model]} {
		if t == nil {
			continue
		}
		from = t
		if t.on != nil {
			on = *t.on
		}
		if t.rate != nil {
			rate = *t.rate
		}
		if t.count != nil {
			count = *t.count
		}
	}
	return on, rate, count, from
}

// sample reports whether a request is traced.
func (s *settings) sample(model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	on, rate, count, from := s.resolve(model)
	if !on || count == 0 {
		return false
	}
	if from.seen++; from.seen%rate != 0 {
		return false
	}
	if count > 0 { // count down the setting that has it: the model's, else the global one
		t := s.models[model]
		if t == nil || t.count == nil {
			t = &s.global
		}
		*t.count--
	}
	return true
}

// trace returns the trace settings of a model, or the global ones for "".
func (s *settings) trace(model string) map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	on, rate, count, _ := s.resolve(model)
	level := "OFF"
	if on {
		level = "TIMESTAMPS"
	}
	return map[string][]string{"trace_level": {level}, "trace_rate": {strconv.FormatInt(rate, 10)},
		"trace_count": {strconv.FormatInt(count, 10)}, "trace_mode": {"opentelemetry"}}
}

// setTrace changes trace settings, all or none. Empty values clear a setting.
func (s *settings) setTrace(model string, values map[string][]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := new(traceSetting)
	if model == "" {
		*t = s.global
	} else if own := s.models[model]; own != nil {
		*t = *own
	}
	for k, v := range values {
		number := func(least int64) (*int64, error) {
			if len(v) == 0 {
				return nil, nil
			}
			n, err := strconv.ParseInt(v[0], 10, 64)
			if err != nil || n < least || len(v) > 1 {
				return nil, fmt.Errorf("trace setting %q is %.64q, want an integer of %d or more", k, v, least)
			}
			return &n, nil
		}
		var err error
		switch k {
		case "trace_level":
			t.on = nil
			for _, level := range v {
				if level != "OFF" && level != "TIMESTAMPS" {
					return fmt.Errorf("trace setting \"trace_level\" is %.64q, want OFF or TIMESTAMPS", level)
				}
				on := level == "TIMESTAMPS" || t.on != nil && *t.on
				t.on = &on
			}
			if t.on != nil && *t.on && !s.tracer {
				return fmt.Errorf(
					"trace setting \"trace_level\" is TIMESTAMPS, but the server has no tracer to send traces to")
			}
		case "trace_rate":
			t.rate, err = number(1)
		case "trace_count":
			t.count, err = number(-1)
		default:
			err = fmt.Errorf("trace setting %.64q cannot be changed, want trace_level, trace_rate or trace_count", k)
		}
		if err != nil {
			return err
		}
	}
	t.seen = 0
	if model == "" {
		s.global = *t
	} else if t.on == nil && t.rate == nil && t.count == nil {
		delete(s.models, model)
	} else {
		if s.models == nil {
			s.models = map[string]*traceSetting{}
		}
		s.models[model] = t
	}
	return nil
}

// log returns the log settings.
func (s *settings) log() map[string]any {
	return map[string]any{"log_file": "", "log_format": "default", "log_info": s.info.Load(),
		"log_warning": s.warning.Load(), "log_error": s.errors.Load(), "log_verbose_level": s.verbose.Load()}
}

// setLog changes log settings, all or none.
func (s *settings) setLog(values map[string]any) error {
	flags := map[string]*atomic.Bool{"log_info": &s.info, "log_warning": &s.warning, "log_error": &s.errors}
	for k, v := range values {
		_, isBool := v.(bool)
		n, isNumber := v.(uint64)
		switch {
		case flags[k] != nil && !isBool:
			return fmt.Errorf("log setting %q is %s, want a bool", k, shown(v))
		case k == "log_verbose_level" && (!isNumber || n > 1<<31):
			return fmt.Errorf("log setting %q is %s, want a non-negative integer", k, shown(v))
		case flags[k] == nil && k != "log_verbose_level":
			return fmt.Errorf(
				"log setting %.64q cannot be changed, want log_info, log_warning, log_error or log_verbose_level", k)
		}
	}
	for k, v := range values {
		if f := flags[k]; f != nil {
			f.Store(v.(bool))
		} else {
			s.verbose.Store(uint32(v.(uint64)))
		}
	}
	return nil
}

// leveled passes on the log records that the settings let through.
type leveled struct {
	slog.Handler
	s *settings
}

// newLeveled returns a handler whose settings begin with the levels of h.
func newLeveled(h slog.Handler, s *settings) slog.Handler {
	ctx := context.Background()
	s.info.Store(h.Enabled(ctx, slog.LevelInfo))
	s.warning.Store(h.Enabled(ctx, slog.LevelWarn))
	s.errors.Store(h.Enabled(ctx, slog.LevelError))
	if h.Enabled(ctx, slog.LevelDebug) {
		s.verbose.Store(1)
	}
	return leveled{h, s}
}

// Enabled implements slog.Handler.
func (l leveled) Enabled(_ context.Context, level slog.Level) bool {
	switch {
	case level >= slog.LevelError:
		return l.s.errors.Load()
	case level >= slog.LevelWarn:
		return l.s.warning.Load()
	case level >= slog.LevelInfo:
		return l.s.info.Load()
	}
	return l.s.verbose.Load() > 0
}

// WithAttrs implements slog.Handler.
func (l leveled) WithAttrs(a []slog.Attr) slog.Handler { return leveled{l.Handler.WithAttrs(a), l.s} }

// WithGroup implements slog.Handler.
func (l leveled) WithGroup(name string) slog.Handler { return leveled{l.Handler.WithGroup(name), l.s} }

// checkChange refuses changes of settings by clients that may not control the server.
func (s *Server) checkChange() error {
	if !s.opts.AllowModelControl {
		return errorf(Unavailable, "changing settings is not allowed: the server is started without model control")
	}
	return nil
}

// traceSettings changes the trace settings of a model, or the global ones for "", and returns them.
func (s *Server) traceSettings(model string, values map[string][]string) (map[string][]string, error) {
	if model != "" {
		v, err := s.acquire(model, "")
		if err != nil {
			return nil, err
		}
		v.release()
	}
	if len(values) > 0 {
		if err := s.checkChange(); err != nil {
			return nil, err
		}
		if err := s.settings.setTrace(model, values); err != nil {
			return nil, &Error{InvalidArgument, err}
		}
	}
	return s.settings.trace(model), nil
}

func (s *Server) logSettings(values map[string]any) (map[string]any, error) {
	if len(values) > 0 {
		if err := s.checkChange(); err != nil {
			return nil, err
		}
		if err := s.settings.setLog(values); err != nil {
			return nil, &Error{InvalidArgument, err}
		}
	}
	return s.settings.log(), nil
}

// routeSettings adds the trace and logging extensions to REST.
func (s *Server) routeSettings(route func(method, pattern string, h handler)) {
	// A GET has no values and changes nothing.
	values := func(w http.ResponseWriter, r *http.Request, memory *reservation, read func(*jsonReader) error) error {
		if r.Method != http.MethodPost {
			return nil
		}
		return s.readJSON(w, r, memory, read)
	}
	trace := func(w http.ResponseWriter, r *http.Request) error {
		memory := &reservation{s: s}
		defer memory.release()
		set := map[string][]string{}
		err := values(w, r, memory, func(j *jsonReader) error {
			return j.entries(func(key string) (err error) {
				if _, ok := set[key]; ok {
					return twice(key)
				}
				if err := memory.grow(mapEntry); err != nil {
					return err
				}
				set[key], err = j.setting(key)
				return err
			})
		})
		if err != nil {
			return err
		}
		got, err := s.traceSettings(r.PathValue("model"), set)
		if err != nil {
			return err
		}
		out := map[string]any{}
		for k, v := range got {
			if out[k] = v; k != "trace_level" {
				out[k] = v[0]
			}
		}
		writeJSON(w, http.StatusOK, out)
		return nil
	}
	log := func(w http.ResponseWriter, r *http.Request) error {
		memory := &reservation{s: s}
		defer memory.release()
		var in map[string]any
		err := values(w, r, memory, func(j *jsonReader) (err error) {
			in, err = j.parameters()
			return err
		})
		if err != nil {
			return err
		}
		for k, v := range in {
			if n, ok := v.(int64); ok && n >= 0 {
				in[k] = uint64(n)
			}
		}
		out, err := s.logSettings(in)
		if err == nil {
			writeJSON(w, http.StatusOK, out)
		}
		return err
	}
	const both = http.MethodGet + ", " + http.MethodPost
	route(both, "/v2/trace/setting", trace)
	route(both, "/v2/models/{model}/trace/setting", trace)
	route(both, "/v2/logging", log)
}

// setting reads the value of a trace setting: a string or number, or a list of them.
func (r *jsonReader) setting(key string) (l []string, err error) {
	const most = 16
	one := func() (err error) {
		var text string
		if r.next() == '"' {
			text, err = r.text("trace setting", maxName)
		} else if text, err = r.number(); err != nil {
			err = fmt.Errorf("trace setting %s must be a string, a list of strings or null", quote(key))
		}
		if err == nil && len(l) == most {
			err = fmt.Errorf("trace setting %s has more than %d values", quote(key), most)
		}
		l = append(l, text)
		return err
	}
	switch {
	case r.null():
		return nil, nil
	case r.next() == '[':
		err = r.list(one)
	default:
		err = one()
	}
	return l, err
}

func (g *service) TraceSetting(_ context.Context,
	r *inference.TraceSettingRequest) (*inference.TraceSettingResponse, error) {
	set := map[string][]string{}
	for k, v := range r.Settings {
		set[k] = v.GetValue()
	}
	got, err := g.s.traceSettings(r.ModelName, set)
	if err != nil {
		return nil, err
	}
	m := &inference.TraceSettingResponse{Settings: map[string]*inference.TraceSettingResponse_SettingValue{}}
	for k, v := range got {
		m.Settings[k] = &inference.TraceSettingResponse_SettingValue{Value: slices.Clone(v)}
	}
	return m, nil
}

func (g *service) LogSettings(_ context.Context,
	r *inference.LogSettingsRequest) (*inference.LogSettingsResponse, error) {
	set := map[string]any{}
	for k, v := range r.Settings {
		switch x := v.GetParameterChoice().(type) {
		case *inference.LogSettingsRequest_SettingValue_BoolParam:
			set[k] = x.BoolParam
		case *inference.LogSettingsRequest_SettingValue_Uint32Param:
			set[k] = uint64(x.Uint32Param)
		case *inference.LogSettingsRequest_SettingValue_StringParam:
			set[k] = x.StringParam
		default:
			return nil, errorf(InvalidArgument, "log setting %.64q has no value", k)
		}
	}
	got, err := g.s.logSettings(set)
	if err != nil {
		return nil, err
	}
	m := &inference.LogSettingsResponse{Settings: map[string]*inference.LogSettingsResponse_SettingValue{}}
	for k, v := range got {
		x := new(inference.LogSettingsResponse_SettingValue)
		switch v := v.(type) {
		case bool:
			x.ParameterChoice = &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: v}
		case uint32:
			x.ParameterChoice = &inference.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: v}
		case string:
			x.ParameterChoice = &inference.LogSettingsResponse_SettingValue_StringParam{StringParam: v}
		}
		m.Settings[k] = x
	}
	return m, nil
}
