package blocked

import "testing"

func TestTeams(t *testing.T) {
	for _, c := range []struct{ threads, images, teams, sharing int }{
		{1, 5, 1, 1}, {2, 1, 1, 2}, {2, 3, 1, 2}, {2, 4, 2, 1}, {6, 4, 2, 3}, {64, 8, 8, 8}, {8, 64, 8, 1}, {4, 0, 4, 1},
	} {
		if n, s := teams(c.threads, c.images), sharing(c.threads, c.images); n != c.teams || s != c.sharing {
			t.Errorf("%d threads, %d images: %d teams of %d threads, want %d of %d", c.threads, c.images, n, s, c.teams,
				c.sharing)
		}
	}
}
