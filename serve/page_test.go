package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/testing/browser"
	"github.com/onward-ml/onward/serve/inference"
)

func TestPageFiles(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Tokens: []string{"secret"}})
	for path, kind := range map[string]string{"/": "text/html", "/status/page.css": "text/css",
		"/status/page.js": "text/javascript"} {
		w := call(s, "GET", path, nil)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("GET %s: %d %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
			strings.Contains(csp, "unsafe") {
			t.Errorf("GET %s: Content-Security-Policy %q", path, csp)
		}
		if strings.Contains(w.Body.String(), "https://") {
			t.Errorf("GET %s refers to other servers", path)
		}
	}
	if w := call(s, "GET", "/status/errors", nil); w.Code != 401 {
		t.Errorf("GET /status/errors without token: %d, want 401", w.Code)
	}
	if w := call(s, "GET", "/nothing", nil); w.Code != 404 {
		t.Errorf("GET /nothing: %d, want 404", w.Code)
	}
}

// TestLastErrors checks that the errors of requests are kept, newest first, and only a bounded
// number of bounded length.
func TestLastErrors(t *testing.T) {
	s := one(t, scaled(t, 1))
	read := func() (l []errorRecord) {
		w := call(s, "GET", "/status/errors", nil)
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 200 || l == nil {
			t.Fatalf("%d %s, %v", w.Code, w.Body, err)
		}
		return l
	}
	if l := read(); len(l) != 0 {
		t.Errorf("errors of a new server: %v", l)
	}
	for i := range keptErrors + 5 {
		refused(t, s, fp32(fmt.Sprintf("[1,%d]", i+3), "["+strings.Repeat("0,", i+2)+"0]"), 400, "unexpected shape")
	}
	l := read()
	if len(l) != keptErrors || l[0].Model != "m" || !strings.Contains(l[0].Error, fmt.Sprint(keptErrors+7)) ||
		l[0].Time.Before(l[len(l)-1].Time) {
		t.Errorf("%d errors, the first %+v", len(l), l[0])
	}
	s.errors.add("m", errors.New(strings.Repeat("é", maxError)))
	if l := read(); len(l[0].Error) > maxError+3 {
		t.Errorf("an error has %d bytes, want at most %d", len(l[0].Error), maxError)
	}
}

// TestRequestsThatFailToParseAreCounted sends bodies that are no requests, over both protocols.
func TestRequestsThatFailToParseAreCounted(t *testing.T) {
	s := one(t, scaled(t, 1))
	for _, body := range []string{"", "no JSON", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1]}]}`} {
		if w := call(s, "POST", "/v2/models/m/infer", []byte(body)); w.Code != 400 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
	refused(t, s, `{"inputs":[]}`, 400, "") // decoded, and counted once
	_, err := dial(t, s).ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: "m",
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "NONE"}}})
	if err == nil {
		t.Error("a wrong data type is accepted")
	}
	call(s, "POST", "/v2/models/none/infer", nil) // no model, no series
	metrics := httptest.NewRecorder()
	s.MetricsHandler().ServeHTTP(metrics, httptest.NewRequest("GET", "/metrics", nil))
	if want := `nv_inference_request_failure{model="m",reason="OTHER",version="1"} 5`; !strings.Contains(metrics.Body.String(), want+"\n") {
		t.Errorf("the metrics have no %s:\n%s", want, metrics.Body)
	}
	if w := call(s, "GET", "/v2/models/m/stats", nil); !strings.Contains(w.Body.String(), `"fail":{"count":5`) &&
		!strings.Contains(w.Body.String(), `"fail":{"count":"5"`) {
		t.Errorf("the statistics count other failures than 5: %s", w.Body)
	}
}

// TestPageInBrowser opens the status page in Chromium, runs a model with the keyboard alone, and
// sees its result, the counts and an error.
func TestPageInBrowser(t *testing.T) {
	p := browser.Open(t)
	digits, err := datasets.Get("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "", &Options{Models: []Model{{Name: "digits", Data: digits}, {Name: "m<b>", Data: scaled(t, 1)}},
		Tokens: []string{"secret"}})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(p.Go(web.URL + "/"))
	p.Wait(t, `!document.getElementById('access').hidden`)
	do(p.Eval(`document.getElementById('token').focus()`, nil))
	for _, c := range "secret" {
		do(p.Press(string(c)))
	}
	do(p.Press("Enter"))
	p.Wait(t, `document.querySelectorAll('#models tr').length == 2 && document.querySelector('#inputs textarea')`)
	p.Wait(t, `document.getElementById('models').innerText.includes('m<b>')`) // names are text

	// Tab leads from the top of the page to the button, and Enter runs the example of the metadata.
	do(p.Eval(`document.activeElement.blur()`, nil))
	reached := false
	for range 20 {
		do(p.Press("Tab"))
		do(p.Eval(`document.activeElement.id == 'go'`, &reached))
		if reached {
			break
		}
	}
	if !reached {
		t.Fatal("the button cannot be reached with the keyboard")
	}
	do(p.Press("Enter"))
	p.Wait(t, `document.getElementById('result').innerText.includes('"probabilities"')`)
	p.Wait(t, `document.querySelector('#models tr td.number').innerText == '1'`)
	p.Wait(t, `document.querySelectorAll('#models svg[role=img] polyline').length == 4`)
	p.Wait(t, `/ \/s$/.test(document.querySelector('#models td.curve').innerText)`)

	do(p.Eval(`document.querySelector('#inputs textarea').value = '[1]'`, nil))
	do(p.Press("Enter"))
	p.Wait(t, `document.getElementById('result').className == 'bad'`)
	// The second mistake is found after the request was decoded.
	do(p.Eval(`(() => { const i = document.querySelector('#inputs input'); i.value = '1, 1, 1, 1'; i.dispatchEvent(new Event('change')); })()`, nil))
	do(p.Press("Enter"))
	p.Wait(t, `document.getElementById('errors').innerText.includes('unexpected shape')`)

	// Light and dark differ, and unlabelled controls are mistakes.
	background := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		do(p.Call("Emulation.setEmulatedMedia",
			map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil))
		var color string
		do(p.Eval(`getComputedStyle(document.querySelector('polyline')).stroke`, &color))
		background[scheme] = color
	}
	if background["light"] == background["dark"] {
		t.Errorf("light and dark have the same curves: %s", background["light"])
	}
	unlabelled := 0
	do(p.Eval(`[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length).length`, &unlabelled))
	if unlabelled > 0 {
		t.Errorf("%d controls have no label", unlabelled)
	}
	for _, l := range p.Log() {
		if strings.HasPrefix(l, "Runtime.exceptionThrown") || strings.Contains(l, "Content Security Policy") {
			t.Error(l)
		}
		if strings.HasPrefix(l, "Network.requestWillBeSent") && !strings.Contains(l, `"url":"`+web.URL) &&
			!strings.Contains(l, `"url":"about:`) {
			t.Errorf("a request to another server: %.300s", l)
		}
	}
}
