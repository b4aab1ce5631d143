package gemm

import "testing"

// TestDivide checks that the blocks of divide cover each row of each panel once, and that many
// threads get about the same number of rows.
func TestDivide(t *testing.T) {
	rows := map[[3]int]int{ // of the thread that computes most
		{128, 768, 16}: 3 * 64,
		{197, 768, 2}:  12 * 197,
		{197, 768, 16}: 3 * 112,
	}
	for _, m := range []int{1, 16, 64, 65, 128, 129, 192, 197, 300, 1024} {
		for _, n := range []int{1, 32, 70, 768, 3072} {
			for _, threads := range []int{0, 1, 2, 3, 8, 16, 64} {
				a := &Args[float32]{M: m, N: n, K: 64, Threads: threads}
				seen, most := make([]int, m*Panels(n)), 0
				a.divide(func(items int, fn func(lo, hi int)) {
					each := make([]int, max(1, threads)) // per thread
					for i := range items {
						before := sum(seen)
						fn(i, i+1)
						each[i*len(each)/items] += sum(seen) - before
					}
					for _, r := range each {
						most = max(most, r)
					}
				}, func(b Block) {
					for r := b.Row0; r < b.Row1; r++ {
						for p := b.Panel0; p < b.Panel1; p++ {
							seen[r*Panels(n)+p]++
						}
					}
					if b.Row0 >= b.Row1 || b.Panel0 >= b.Panel1 || b.Row0%unitRows != 0 {
						t.Errorf("%d×%d, %d threads: block %+v", m, n, threads, b)
					}
				})
				for i, k := range seen {
					if k != 1 {
						t.Fatalf("%d×%d, %d threads: row %d of panel %d is computed %d times", m, n, threads,
							i/Panels(n), i%Panels(n), k)
					}
				}
				if want := rows[[3]int{m, n, threads}]; want > 0 && most != want {
					t.Errorf("%d×%d, %d threads: one computes %d rows of panels, want %d", m, n, threads, most, want)
				}
			}
		}
	}
}

func sum(x []int) (s int) {
	for _, v := range x {
		s += v
	}
	return s
}
