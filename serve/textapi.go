package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"

	"github.com/onward-ml/onward/pipeline"
)

// numberCost is the memory of a number in a response: its text in JSON has up to 15 bytes, in a
// buffer that grows by doubling from one of half its size, and in a copy.
const numberCost = 60

// textCost is the memory of a byte of a text in a response: up to 6 bytes of JSON, as numberCost
// has them.
const textCost = 24

// errorStyle returns the status and the body of an error in the form of an API.
type errorStyle func(e *Error) (status int, body any)

// plainError is the form of the Open Inference Protocol.
func plainError(e *Error) (int, any) { return statusOf[e.Code].http, errorJSON{cut(e.Error())} }

// teiError is the form of Text Embeddings Inference.
func teiError(e *Error) (int, any) {
	status, kind := teiStatus(e)
	return status, map[string]string{"error": cut(e.Error()), "error_type": kind}
}

// errNoTexts is an error with a type of its own in Text Embeddings Inference.
var errNoTexts = errors.New("the request has no texts, or one without tokens")

// teiStatus returns the status and the type of an error.
func teiStatus(e *Error) (status int, kind string) {
	switch e.Code {
	case InvalidArgument:
		if errors.Is(e, errNoTexts) {
			return http.StatusBadRequest, "Empty"
		}
		return http.StatusUnprocessableEntity, "Validation"
	case TooLarge:
		return http.StatusRequestEntityTooLarge, "Validation"
	case Overloaded:
		return http.StatusTooManyRequests, "Overloaded"
	case Internal, Unsupported:
		return http.StatusFailedDependency, "Backend"
	case Unavailable:
		return http.StatusServiceUnavailable, "Unhealthy"
	}
	return statusOf[e.Code].http, "Validation"
}

// openAIError is the form of OpenAI, with the members of Text Embeddings Inference beside it.
func openAIError(e *Error) (int, any) {
	_, kind := teiStatus(e)
	status, class, code := statusOf[e.Code].http, "invalid_request_error", any(nil)
	switch e.Code {
	case Overloaded:
		status, class = http.StatusTooManyRequests, "rate_limit_error"
	case TooLarge:
		status, code = http.StatusBadRequest, "context_length_exceeded"
	case NotFound, Unsupported: // there is no such model, or none for the task
		status, code = http.StatusNotFound, "model_not_found"
	case Unauthenticated:
		class, code = "authentication_error", "invalid_api_key"
	case Internal, Unavailable, DeadlineExceeded, Cancelled:
		class = "server_error"
	}
	msg := cut(e.Error())
	return status, map[string]any{"error": map[string]any{"message": msg, "type": class, "param": nil, "code": code},
		"message": msg, "code": status, "error_type": kind}
}

// textHandler answers a request whose body is decoded.
type textHandler func(c *textContext, q *textRequest) (any, error)

// textContext is a request to a model folder in progress.
type textContext struct {
	context.Context
	s        *Server
	w        http.ResponseWriter // nil for gRPC
	memory   *reservation
	received time.Time
	model    string // of the path; "": that of the body

	answer     *answer // of run
	characters int     // of the texts
}

// textEndpoint is an endpoint for model folders.
type textEndpoint struct {
	paths             []string
	required, members []string // of the body
	handle            textHandler
	style             errorStyle
}

// routeTexts adds the endpoints of Text Embeddings Inference, OpenAI, Cohere and Jina.
func (s *Server) routeTexts(route func(method, pattern string, h handler, style errorStyle)) {
	for _, e := range append(teiEndpoints(), openAIEndpoints()...) {
		h := func(w http.ResponseWriter, r *http.Request) error { return s.serveText(w, r, &e) }
		for _, p := range e.paths {
			route(http.MethodPost, p, h, e.style)
		}
	}
	route(http.MethodGet, "/info", s.getInfo, teiError)
	route(http.MethodGet, "/models/{model}/info", s.getInfo, teiError)
	route(http.MethodGet, "/v1/models", s.getModels, openAIError)
}

// serveText decodes and answers a request.
func (s *Server) serveText(w http.ResponseWriter, r *http.Request, e *textEndpoint) error {
	c := &textContext{s: s, w: w, received: time.Now(), memory: &reservation{s: s}, model: r.PathValue("model")}
	done, err := s.admit()
	if err != nil {
		return err
	}
	defer done()
	defer c.memory.release()
	ctx := s.callerTrace(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c.Context = ctx
	data, err := s.body(w, r.WithContext(ctx), c.memory)
	if err != nil {
		return err
	}
	var q *textRequest
	err = readJSON(ctx, data, c.memory, func(j *jsonReader) (err error) {
		q, err = readText(j, e.required, e.members, int(s.opts.MaxBody))
		return err
	})
	if err != nil {
		if c.model != "" {
			s.undecoded(c.model, "", c.received, invalid(err))
		}
		return invalid(err)
	}
	if c.model == "" {
		c.model = q.model
	}
	answer, err := e.handle(c, q)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// folder returns the model folder for a request: the one that it names, or the only one for one of
// the tasks. The caller releases it.
func (s *Server) folder(name string, tasks ...pipeline.Task) (*version, error) {
	if name != "" {
		v, err := s.acquire(name, "")
		if err != nil {
			return nil, err
		}
		if !v.is(tasks) {
			v.release()
			return nil, errorf(Unsupported, "model %s is not for %s", quote(name), tasks)
		}
		return v, nil
	}
	var found []*version
	var names []string
	for _, v := range s.all() {
		if !v.is(tasks) {
			v.release()
			continue
		}
		if n := len(found); n > 0 && found[n-1].model == v.model { // the latest version
			found[n-1].release()
			found[n-1] = v
			continue
		}
		found, names = append(found, v), append(names, v.model)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return nil, errorf(Unsupported, "no model for %s is served", tasks)
	}
	for _, v := range found {
		v.release()
	}
	return nil, errorf(InvalidArgument, "the request names no model, and several are served: want one of %q, as "+
		"the member model or in the path /models/NAME", names)
}

// is reports whether a version is a model folder for one of the tasks; no tasks stand for any.
func (v *version) is(tasks []pipeline.Task) bool {
	if v.texts == nil {
		return false
	}
	for _, t := range tasks {
		if v.texts.task == t {
			return true
		}
	}
	return len(tasks) == 0
}

// run runs the texts of a request on a model folder, and sets the headers of Text Embeddings
// Inference.
func (c *textContext) run(v *version, q *textRequest, o textOptions) (*answer, error) {
	if len(q.inputs) == 0 {
		return nil, &Error{InvalidArgument, errNoTexts}
	}
	o.prompt, o.raw = q.prompt, q.raw
	a, err := c.s.runCall(c, v, &textCall{inputs: q.inputs, cut: !q.keep, left: q.left, options: o}, c.memory,
		c.received)
	if err != nil {
		return nil, err
	}
	numbers := 0
	for i := range a.results {
		n, ok := a.results[i].numbers()
		if !ok { // JSON has no such numbers
			return nil, errorf(Internal, "the model returns NaN or an infinity for text %d", i)
		}
		numbers += n
	}
	for _, in := range q.inputs {
		c.characters += utf8.RuneCountInString(in.text) + utf8.RuneCountInString(in.second)
	}
	if err := c.memory.grow(numberCost * int64(numbers)); err != nil {
		return nil, err
	}
	if c.answer = a; c.w == nil {
		return a, nil
	}
	h := c.w.Header()
	h.Set("X-Compute-Tokens", strconv.Itoa(a.tokens))
	h.Set("X-Compute-Characters", strconv.Itoa(c.characters))
	for name, d := range map[string]time.Duration{"Total": time.Since(c.received), "Tokenization": a.tokenized,
		"Queue": a.job.started.Sub(a.job.queued), "Inference": a.job.inferDone.Sub(a.job.started)} {
		h.Set("X-"+name+"-Time", strconv.FormatInt(d.Milliseconds(), 10))
	}
	return a, nil
}

// numbers returns how many numbers a result has, and whether all are finite.
func (r *textResult) numbers() (n int, finite bool) {
	rows := append([][]float32{r.vector, r.sparse.Values, r.sparse.Values, {r.score}}, r.tokens...)
	for _, l := range r.labels {
		rows = append(rows, []float32{l.Score})
	}
	finite = true
	for _, row := range rows {
		n += len(row)
		for _, x := range row {
			finite = finite && x-x == 0
		}
	}
	return n, finite
}
