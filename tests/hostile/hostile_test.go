// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// panics matches what a Go program prints when it crashes.
var panics = regexp.MustCompile(`(?m)^(panic:|fatal error:|SIG[A-Z]+:|goroutine \d+ \[)|` +
	`device panicked|runtime error`)

// said returns the device's log, and the panics in it. These are failures.
func (g *rig) said(t testing.TB) (log []byte, found []string) {
	t.Helper()
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	found = panics.FindAllString(string(log), -1)
	if first := panics.FindIndex(log); first != nil {
		from := max(0, first[0]-1000)
		t.Errorf("%d panics, want none: %q\n%s", len(found), found,
			log[from:min(len(log), from+20000)])
	}
	if len(log) > 1<<20 {
		t.Errorf("the guest made the host log %d bytes, want at most %d", len(log), 1<<20)
	}
	return log, found
}

func TestHostile(t *testing.T) {
	g := newGuest(t).opened(t)
	var report, junit strings.Builder
	counts := map[verdict]int{}
	begin := time.Now()
	list := attacks()
	for i, a := range list {
		start := time.Now()
		v, err := g.run(a, byte(i))
		took := time.Since(start).Seconds()
		counts[v]++
		fmt.Fprintf(&report, "%-6s %3d %7.3fs %s\n", v, a.class, took, a.name)
		fmt.Fprintf(&junit, "  <testcase classname=\"hostile.%d\" name=%q time=\"%.3f\">", a.class,
			a.name, took)
		if took > 2 {
			t.Logf("%s takes %.1f s", a.name, took)
		}
		if v != pass {
			fmt.Fprintf(&junit, "<failure type=%q message=%q/>", v, err.Error())
			t.Errorf("%s: %s: %v", a.name, v, err)
		}
		fmt.Fprintln(&junit, "</testcase>")
		if !g.alive() || counts[wedged] > 3 {
			break
		}
	}
	log, found := g.said(t)
	if len(list) < 100 {
		t.Errorf("%d cases, want at least 100", len(list))
	}
	t.Logf("\n%s%d cases in %.1f s: %d PASS, %d FAIL, %d WEDGED, %d panics, %d bytes of log",
		&report, len(list),
		time.Since(begin).Seconds(), counts[pass], counts[fail], counts[wedged], len(found),
		len(log))
	if path := os.Getenv("PARACUDA_JUNIT"); path != "" {
		text := fmt.Sprintf(
			"<testsuite name=\"hostile\" tests=\"%d\" failures=\"%d\">\n%s</testsuite>\n",
			len(list), counts[fail]+counts[wedged], &junit)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
