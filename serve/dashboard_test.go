package serve

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDashboardMetrics checks that the server has the metrics of the dashboard, of the autoscaler
// and of the documentation.
func TestDashboardMetrics(t *testing.T) {
	s := one(t, scaled(t, 1))
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 {
		t.Fatal(w.Body)
	}
	call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,3]", "[1,2,3]"))) // counts a failure
	families, err := s.opts.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
		have[f.GetName()+"_bucket"] = f.GetMetric()[0].GetHistogram() != nil
	}
	data, err := os.ReadFile("../deploy/compose/grafana/dashboards/onward.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(nv|onward)_\w+`)
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			names := name.FindAllString(q.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q: %q has no metric of the server", p.Title, q.Expr)
			}
			for _, n := range names {
				if !have[n] {
					t.Errorf("panel %q: the server has no metric %s", p.Title, n)
				}
			}
		}
	}
	rule, err := os.ReadFile("../deploy/kubernetes/prometheus-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(string(rule), "seriesQuery: ")
	if n := name.FindString(query); !have[n] {
		t.Errorf("prometheus-adapter.yaml: the server has no metric %q", n)
	}
}
