package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward/serve/inference"
)

func TestTraceSettings(t *testing.T) {
	r := new(spans)
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}, {Name: "n", Data: scaled(t, 1)}},
		Tracer: r, AllowModelControl: true})
	set := func(path, body string, code int, want string) {
		t.Helper()
		method := "POST"
		if body == "" {
			method = "GET"
		}
		if w := call(s, method, path, []byte(body)); w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s, want %d %s", path, body, w.Code, w.Body, code, want)
		}
	}
	traced := func(model string, want int) {
		t.Helper()
		for range 6 {
			if w := call(s, "POST", "/v2/models/"+model+"/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 {
				t.Fatal(w.Body)
			}
		}
		if got := strings.Count(r.names(), "queue"); got != want {
			t.Errorf("%d of 6 requests for %s are traced, want %d", got, model, want)
		}
	}
	set("/v2/trace/setting", "", 200, `{"trace_count":"-1","trace_level":["TIMESTAMPS"],"trace_mode":"opentelemetry","trace_rate":"1"}`)
	traced("m", 6)
	set("/v2/trace/setting", `{"trace_rate":"3"}`, 200, `"trace_rate":"3"`)
	traced("m", 2)
	set("/v2/models/m/trace/setting", `{"trace_rate":2,"trace_count":"2"}`, 200, `"trace_count":"2"`)
	set("/v2/models/m/trace/setting", "", 200, `"trace_rate":"2"`)
	traced("m", 2)
	traced("m", 0) // the count has run out
	traced("n", 2)
	set("/v2/models/m/trace/setting", `{"trace_rate":null,"trace_count":null}`, 200, `"trace_rate":"3"`)
	traced("m", 2)
	set("/v2/models/m/trace/setting", `{"trace_level":["OFF"]}`, 200, `"OFF"`)
	traced("m", 0)
	traced("n", 2)
	for body, want := range map[string]string{
		`{"trace_rate":"0"}`:                     "integer of 1 or more",
		`{"trace_rate":["1","2"]}`:               "integer of 1 or more",
		`{"trace_count":"-2"}`:                   "integer of -1 or more",
		`{"trace_level":["TENSORS"]}`:            "want OFF or TIMESTAMPS",
		`{"trace_file":"/etc/passwd"}`:           "cannot be changed",
		`{"trace_rate":"2","trace_level":["x"]}`: "want OFF or TIMESTAMPS",
		`{"trace_level":{}}`:                     "a string, a list of strings",
		`[`:                                      "JSON",
	} {
		set("/v2/trace/setting", body, 400, want)
	}
	set("/v2/trace/setting", "", 200, `"trace_rate":"3"`) // as before the errors
	set("/v2/models/none/trace/setting", "", 404, "unknown model")
	if w := call(s, "PUT", "/v2/trace/setting", nil); w.Code != 405 {
		t.Errorf("PUT: %d", w.Code)
	}

	c := dial(t, s)
	m, err := c.TraceSetting(t.Context(),
		&inference.TraceSettingRequest{
			Settings: map[string]*inference.TraceSettingRequest_SettingValue{"trace_rate": {Value: []string{"6"}}}})
	if err != nil || fmt.Sprint(m.Settings["trace_rate"].GetValue(), m.Settings["trace_level"].GetValue()) !=
		"[6] [TIMESTAMPS]" {
		t.Errorf("gRPC: %v %v", m, err)
	}
	if m, err = c.TraceSetting(t.Context(),
		&inference.TraceSettingRequest{ModelName: "m",
			Settings: map[string]*inference.TraceSettingRequest_SettingValue{"trace_level": {}}}); err != nil || fmt.Sprint(m.Settings["trace_level"].GetValue()) != "[TIMESTAMPS]" {
		t.Errorf("gRPC, cleared: %v %v", m, err)
	}
	traced("m", 1)
}

// TestTracesOfEnsembles checks that the steps of a traced request are traced, and no others.
func TestTracesOfEnsembles(t *testing.T) {
	r := new(spans)
	s := newServer(t, chainRepo(t), &Options{Tracer: r, AllowModelControl: true})
	inferA(s, `,"outputs":[{"name":"z"}]`)
	if got := r.names(); got !=
		"infer a, infer a/infer b, infer b/queue, infer b/compute, infer a/infer c, infer c/queue, infer c/compute" {
		t.Errorf("spans: %s", got)
	}
	call(s, "POST", "/v2/models/a/trace/setting", []byte(`{"trace_level":"OFF"}`))
	inferA(s, "")
	if got := r.names(); got != "" {
		t.Errorf("spans of an ensemble that is not traced: %s", got)
	}
}

func TestLogSettings(t *testing.T) {
	var out bytes.Buffer
	s, err := New(t.Context(), "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, AllowModelControl: true,
		Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logged := func() (l string) {
		out.Reset()
		log := s.log.With("a", 1).WithGroup("g")
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(context.Background(), level, "text")
		}
		for line := range strings.Lines(out.String()) {
			l += strings.Fields(line)[1] + " "
		}
		return l
	}
	for _, c := range []struct{ body, want, levels string }{
		{"", `{"log_error":true,"log_file":"","log_format":"default","log_info":true,"log_verbose_level":0,"log_warning":true}`, "level=INFO level=WARN level=ERROR "},
		{`{"log_verbose_level":1}`, `"log_verbose_level":1`, "level=DEBUG level=INFO level=WARN level=ERROR "},
		{`{"log_verbose_level":0,"log_info":false,"log_error":false}`, `"log_info":false`, "level=WARN "},
		{`{"log_verbose_level":-1}`, "non-negative integer", "level=WARN "},
		{`{"log_info":"yes","log_error":true}`, "want a bool", "level=WARN "},
		{`{"log_file":"/tmp/log"}`, "cannot be changed", "level=WARN "},
	} {
		method := "POST"
		if c.body == "" {
			method = "GET"
		}
		w := call(s, method, "/v2/logging", []byte(c.body))
		if !strings.Contains(w.Body.String(), c.want) ||
			(w.Code == 200) == strings.Contains(w.Body.String(), "error\":\"") {
			t.Errorf("%s: %d %s, want %s", c.body, w.Code, w.Body, c.want)
		}
		if got := logged(); got != c.levels {
			t.Errorf("after %s: records of %s, want %s", c.body, got, c.levels)
		}
	}
	m, err := dial(t, s).
		LogSettings(t.Context(),
			&inference.LogSettingsRequest{Settings: map[string]*inference.LogSettingsRequest_SettingValue{
				"log_verbose_level": {ParameterChoice: &inference.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: 2}}, "log_info": {ParameterChoice: &inference.LogSettingsRequest_SettingValue_BoolParam{BoolParam: true}}}})
	if err != nil || m.Settings["log_verbose_level"].GetUint32Param() != 2 || !m.Settings["log_info"].GetBoolParam() ||
		m.Settings["log_format"].GetStringParam() != "default" {
		t.Errorf("gRPC: %v %v", m, err)
	}
}

func TestSettingsNeedControl(t *testing.T) {
	s := one(t, scaled(t, 1))
	for path, body := range map[string]string{"/v2/trace/setting": `{"trace_level":"OFF"}`, "/v2/logging": `{"log_info":true}`} {
		if w := call(s, "POST", path, []byte(body)); w.Code != 503 ||
			!strings.Contains(w.Body.String(), "not allowed") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := call(s, "GET", path, nil); w.Code != 200 {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	if _, err := dial(t, s).
		LogSettings(t.Context(),
			&inference.LogSettingsRequest{Settings: map[string]*inference.LogSettingsRequest_SettingValue{
				"log_info": {}}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a setting without value: %v", err)
	}
	s.settings.tracer = false
	if err := s.settings.setTrace("", map[string][]string{"trace_level": {"TIMESTAMPS"}}); err == nil {
		t.Errorf("tracing without a tracer: %v", err)
	}
}
