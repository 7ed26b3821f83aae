// SPDX-License-Identifier: Apache-2.0

// Package leaks says whether the tests of a package leave something behind: goroutines,
// descriptors, memory that is shared with others, or processes, also those that their parents have
// left. A package's TestMain calls Main. What a test leaves behind, the program often leaves behind
// each time.
package leaks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines, descriptors and children that are ending may take.
const patience = 30 * time.Second

// Tests are a package's, a *testing.M.
type Tests interface{ Run() (code int) }

// Main runs the tests and returns the exit code, which says failure if they left something. The
// goroutines of ignored functions may stay.
func Main(m Tests, ignored ...string) int { return run(m, held, ignored) }

// OfCommands is Main for packages whose functions are a process each when they aren't tested, and
// own descriptors and mappings until that ends: it looks for goroutines and for processes.
func OfCommands(m Tests, ignored ...string) int {
	return run(m, func(mark string) []string { return processes(mark, false) }, ignored)
}

// run runs the tests. Of what list then returns they mustn't have left anything.
func run(m Tests, list func(mark string) []string, ignored []string) int {
	mark := marked()
	before := list(mark)
	code := m.Run()
	fuzz := flag.Lookup("test.fuzz")
	if code != 0 || fuzz != nil && fuzz.Value.String() != "" { // the engine keeps its own
		return code
	}
	end := time.Now().Add(patience)
	if err := goroutines(end, ignored); err != nil {
		fmt.Fprintln(os.Stderr, "the tests leave goroutines:", err)
		return 1
	}
	left := more(list(mark), before)
	for ; len(left) > 0 && time.Now().Before(end); left = more(list(mark), before) {
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		fmt.Fprintf(os.Stderr, "the tests leave:\n%s\n", strings.Join(left, "\n"))
		return 1
	}
	return 0
}

// goroutines looks for goroutines until none is left, or the end has come.
func goroutines(end time.Time, ignored []string) (err error) {
	options := []goleak.Option{}
	for _, name := range ignored {
		options = append(options, goleak.IgnoreAnyFunction(name))
	}
	for {
		// Each search waits for some time itself.
		if err = goleak.Find(options...); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// more lists what is held now and wasn't before, each as often as there is more of it.
func more(now, before []string) []string {
	left := slices.Clone(now)
	for _, thing := range before {
		if i := slices.Index(left, thing); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

// held lists what this process has: what its descriptors are, shared mappings, and processes.
func held(mark string) (all []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		// The runtime makes its own when it needs them, and the folder just read is gone.
		is, err := os.Readlink(link)
		if err != nil || strings.HasPrefix(is, "anon_inode:[eventpoll]") || is == "/proc/self/fd" ||
			strings.HasPrefix(is, "/sys/fs/cgroup") {
			continue
		}
		all = append(all, "descriptor of "+kind(is))
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) > 5 &&
			strings.HasPrefix(fields[5], "/memfd:") {
			all = append(all, "mapping of "+fields[5])
		}
	}
	return append(all, processes(mark, true)...)
}

// kind is what kind of file a link leads to, without the number that differs for each.
func kind(link string) string {
	name, _, _ := strings.Cut(link, "[")
	if strings.HasPrefix(link, "socket:") || strings.HasPrefix(link, "pipe:") {
		return name
	}
	return link
}
