package page

import "testing"

func TestReplace(t *testing.T) {
	const heading, section = "## New", "## New\n\nnew\n"
	for _, c := range []struct{ page, next, want string }{
		{"# P\n\n## A\n\na\n", "", "# P\n\n## A\n\na\n\n" + section},
		{"# P\n\n## New\n\nold\n\n## B\n\nb\n", "", "# P\n\n" + section + "\n## B\n\nb\n"},
		{"# P\n\n## A\n\n## New\n\nold\n\n| 1 |\n", "", "# P\n\n## A\n\n" + section},
		{"# P\n\n## A\n\na\n", "## A", "# P\n\n" + section + "\n## A\n\na\n"},
		{"# P\n\n## A\n\n## New\n\nold\n", "## A", "# P\n\n## A\n\n" + section},
		{"# P\n", "## A", "# P\n\n" + section},
		{"", "## A", "\n\n" + section},
	} {
		got := Replace(c.page, heading, section, c.next)
		if got != c.want {
			t.Errorf("Replace(%q, before %q) = %q, want %q", c.page, c.next, got, c.want)
		}
		if s := Section(got, heading); s != section {
			t.Errorf("Section(%q) = %q", got, s)
		}
	}
	if s := Section("# P\n\n## A\n", heading); s != "" {
		t.Errorf("Section = %q, want none", s)
	}
}
