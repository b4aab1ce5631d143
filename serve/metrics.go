package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// metrics holds the Prometheus metrics, with Triton's names where it has them
// (https://docs.nvidia.com/deeplearning/triton-inference-server, Metrics). Their labels are names
// of loaded models, never what a request says, so that clients cannot add series.
type metrics struct {
	success, failure, inferences, executions *prometheus.CounterVec
	total, queue, input, infer, output       *prometheus.CounterVec // microseconds
	seconds                                  *prometheus.HistogramVec
	loadSeconds                              *prometheus.GaugeVec
	tokens                                   *prometheus.CounterVec
	refused                                  prometheus.Counter
	byModel                                  []interface{ DeletePartialMatch(prometheus.Labels) int }
}

func newMetrics(s *Server) (*metrics, error) {
	m := new(metrics)
	labels := []string{"model", "version"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, more...))
		m.byModel = append(m.byModel, c)
		return c
	}
	m.success = counter("nv_inference_request_success", "Number of successful inference requests.")
	m.failure = counter("nv_inference_request_failure",
		"Number of failed inference requests, by reason: REJECTED, CANCELED, BACKEND or OTHER.", "reason")
	m.inferences = counter("nv_inference_count", "Number of inferences: the sum of the batch sizes.")
	m.executions = counter("nv_inference_exec_count", "Number of runs of the model.")
	m.total = counter("nv_inference_request_duration_us", "Time of the requests, in microseconds.")
	m.queue = counter("nv_inference_queue_duration_us", "Time of the requests in the queue, in microseconds.")
	m.input = counter("nv_inference_compute_input_duration_us", "Time for joining inputs to batches, in microseconds.")
	m.infer = counter("nv_inference_compute_infer_duration_us", "Time of the runs, in microseconds.")
	m.output = counter("nv_inference_compute_output_duration_us", "Time for splitting outputs, in microseconds.")
	m.tokens = counter("onward_tokens", "Number of tokens of the texts that model folders have run.")
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "onward_request_duration_seconds",
		Help:    "Time of the successful requests.",
		Buckets: prometheus.ExponentialBucketsRange(50e-6, 30, 24)}, labels)
	m.loadSeconds = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "nv_model_load_duration_secs",
		Help: "Time for loading the model and its warm-up."}, labels)
	m.byModel = append(m.byModel, m.seconds, m.loadSeconds)
	m.refused = prometheus.NewCounter(prometheus.CounterOpts{Name: "onward_requests_refused_total",
		Help: "Requests refused because too many were in progress."})
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "onward_requests_in_progress",
		Help: "Inference requests in progress."},
		func() float64 { return float64(s.active.Load()) })
	memory := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "onward_memory_reserved_bytes",
		Help: "Memory that requests and runs have reserved, of the limit for all."},
		func() float64 { return float64(s.memory.Used()) })
	for _, c := range []prometheus.Collector{m.success, m.failure, m.inferences, m.executions, m.total, m.queue,
		m.input, m.infer, m.output, m.tokens,
		m.seconds, m.loadSeconds, m.refused, active, memory, pendingRequests{s}} {
		if err := s.opts.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// pendingRequests reports the length of the queues and the number of sequences.
type pendingRequests struct{ s *Server }

var pendingDesc = prometheus.NewDesc("nv_inference_pending_request_count", "Number of requests that wait for a run.",
	[]string{"model", "version"}, nil)

var sequencesDesc = prometheus.NewDesc("onward_sequences",
	"Number of sequences of stateful models that have not ended.", []string{"model", "version"}, nil)

func (p pendingRequests) Describe(c chan<- *prometheus.Desc) {
	c <- pendingDesc
	c <- sequencesDesc
}

func (p pendingRequests) Collect(c chan<- prometheus.Metric) {
	for _, v := range p.s.all() {
		gauge := func(d *prometheus.Desc, n int) {
			c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), v.model,
				strconv.FormatInt(v.number, 10))
		}
		gauge(pendingDesc, v.scheduler.pending())
		if v.sequences != nil {
			gauge(sequencesDesc, v.sequences.active())
		}
		v.release()
	}
}

// labels returns the values of the labels of the version's metrics.
func (v *version) labels() []string { return []string{v.model, strconv.FormatInt(v.number, 10)} }

func (m *metrics) record(v *version, r *request, j *job, err error) {
	version := strconv.FormatInt(v.number, 10)
	if err != nil {
		m.failure.WithLabelValues(v.model, version, reason(err)).Inc()
		return
	}
	us := func(c *prometheus.CounterVec, d time.Duration) {
		c.WithLabelValues(v.model, version).Add(max(0, float64(d)/float64(time.Microsecond)))
	}
	elapsed := time.Since(r.received)
	m.success.WithLabelValues(v.model, version).Inc()
	m.inferences.WithLabelValues(v.model, version).Add(float64(j.size))
	m.executions.WithLabelValues(v.model, version).Add(float64(j.executions))
	us(m.total, elapsed)
	us(m.queue, j.started.Sub(j.queued))
	us(m.input, j.inputDone.Sub(j.started))
	us(m.infer, j.inferDone.Sub(j.inputDone))
	us(m.output, j.finished.Sub(j.inferDone))
	m.seconds.WithLabelValues(v.model, version).Observe(elapsed.Seconds())
}

// reason returns Triton's word for the reason of a failure.
func reason(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return "OTHER"
	}
	switch e.Code {
	case Overloaded, Unavailable, TooLarge:
		return "REJECTED"
	case Cancelled, DeadlineExceeded:
		return "CANCELED"
	case Internal:
		return "BACKEND"
	}
	return "OTHER"
}

func (m *metrics) loaded(v *version, d time.Duration) {
	m.loadSeconds.WithLabelValues(v.model, strconv.FormatInt(v.number, 10)).Set(d.Seconds())
}

// forget removes the series of a version that is no longer served.
func (m *metrics) forget(v *version) {
	for _, c := range m.byModel {
		c.DeletePartialMatch(prometheus.Labels{"model": v.model, "version": strconv.FormatInt(v.number, 10)})
	}
}

// MetricsHandler serves the Prometheus metrics, compressed if there is memory for it. One request
// at a time is answered without memory: it shows that the server has none.
func (s *Server) MetricsHandler() http.Handler {
	return s.metered(s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		memory := &reservation{s: s}
		defer memory.release()
		gathered, err := s.gather(memory)
		if gathered != nil && err != nil && s.scraping.TryLock() {
			defer s.scraping.Unlock()
			err = nil
		}
		if err != nil {
			s.serveHTTP(w, r, func(http.ResponseWriter, *http.Request) error { return err }, plainError)
			return
		}
		if r.Header.Get("Accept-Encoding") != "" && memory.grow(deflateCost) != nil {
			r.Header.Del("Accept-Encoding")
		}
		promhttp.HandlerFor(gathered, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}), s.opts.MetricsHosts))
}

// gather returns the metrics as they are now, and reserves their memory. Without memory for them,
// it returns them with an error.
func (s *Server) gather(memory *reservation) (prometheus.Gatherer, error) {
	s.describing.Lock()
	defer s.describing.Unlock()
	families, err := s.opts.Metrics.Gather()
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for _, f := range families {
		for _, m := range f.Metric {
			n += metricCost + bucketCost*int64(len(m.GetHistogram().GetBucket()))
		}
	}
	return prometheus.GathererFunc(always(families)), memory.grow(n)
}

const (
	metricCost = 512 // bytes of memory of a metric
	bucketCost = 128 // bytes of memory of a bucket of a histogram
)

// always returns a function that returns v.
func always[T any](v T) func() (T, error) { return func() (T, error) { return v, nil } }

// maxTraceState is the length of the longest tracestate that spans keep. W3C asks for 512 bytes.
const maxTraceState = 512

// callerTrace returns a context with the caller's W3C trace context. A long tracestate is left out:
// spans wait for their export, and clients can send 16 KiB.
func (s *Server) callerTrace(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	if s.tracer == nil {
		return ctx
	}
	ctx = propagation.TraceContext{}.Extract(ctx, c)
	if x := trace.SpanContextFromContext(ctx); len(x.TraceState().String()) > maxTraceState {
		ctx = trace.ContextWithRemoteSpanContext(ctx, x.WithTraceState(trace.TraceState{}))
	}
	return ctx
}

// trace starts the span of an inference request, if it is selected. The function that it returns
// ends the span, with the time in the queue and that of the run as children.
func (s *Server) trace(ctx context.Context, v *version, r *request) (context.Context, func(*job, error)) {
	if parent := trace.SpanContextFromContext(ctx); s.tracer == nil || r.step &&
		(!parent.IsValid() || parent.IsRemote()) || !r.step && !s.settings.sample(v.model) {
		return ctx, func(*job, error) {}
	}
	ctx, span := s.tracer.Start(ctx, "infer "+v.model, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(r.received),
		trace.WithAttributes(attribute.String("model.name", v.model), attribute.Int64("model.version", v.number)))
	return ctx, func(j *job, err error) {
		if j != nil && v.ensemble == nil { // the parts of an ensemble are its steps
			for _, part := range []struct {
				name       string
				start, end time.Time
			}{{"queue", j.queued, j.started}, {"compute", j.started, j.inferDone}} {
				_, p := s.tracer.Start(ctx, part.name, trace.WithTimestamp(part.start))
				p.End(trace.WithTimestamp(part.end))
			}
		}
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
