// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// DeviceOptions are the options that a device process needs for both programs, beside its socket.
func DeviceOptions() []string {
	return []string{"--gpu", "soft", "--set", "channels=2", "--set", "arena=4M", "--set",
		"soft-memory=128M", "--set", "starts=10000"}
}

// errDied: the host's processes must outlive all that is done to them.
var errDied = errors.New("the device process has ended")

// Program attacks a device process to which it connects.
type Program struct {
	name string
	// cases are the names of what it does.
	cases func() []string
	// begin connects. run does a case, and says what came of it.
	begin func(tb testing.TB, t *target) (run func(number int) (verdict, error))
	// end says whether the device keeps its promises at the end.
	end func() error
}

// options are those of a program's command line.
type options struct {
	socket, only string
	list         bool
}

// Main is a program's main function. It returns the exit status: 1 if the device has died or broken
// a promise, 2 if the program couldn't begin.
func (p *Program) Main(arguments []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet(p.name, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.socket, "socket", "", "the device process's `socket`")
	flags.StringVar(&o.only, "case", "", "only the cases whose names begin with this `text`")
	flags.BoolVar(&o.list, "list", false, "list the cases, and attack nobody")
	flags.Usage = func() {
		fmt.Fprintf(errs, "%s attacks a device process, as started by:\n"+
			"paracuda device --socket-path SOCKET %s\n", p.name, strings.Join(DeviceOptions(), " "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return 2
	}
	wanted := p.wanted(o.only)
	switch {
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "%s: unexpected argument %q\n", p.name, flags.Arg(0))
	case len(wanted) == 0:
		fmt.Fprintf(errs, "%s: no case's name begins with %q: --list lists them\n", p.name, o.only)
	case o.list:
		for _, i := range wanted {
			fmt.Fprintln(out, p.cases()[i])
		}
		return 0
	case o.socket == "":
		fmt.Fprintf(errs, "%s: give the device process's socket by --socket\n", p.name)
	default:
		t, err := findTarget(o.socket)
		if err == nil {
			return p.attack(t, wanted, out)
		}
		fmt.Fprintf(errs, "%s: connect to the device process: %v\n", p.name, err)
	}
	return 2
}

// wanted are the numbers of the cases whose names begin with a text.
func (p *Program) wanted(text string) (numbers []int) {
	for i, name := range p.cases() {
		if strings.HasPrefix(name, text) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// attack does cases, and prints what came of each.
func (p *Program) attack(t *target, wanted []int, out io.Writer) (status int) {
	names, counts := p.cases(), map[verdict]int{}
	begin := time.Now()
	say := func(v verdict, took time.Duration, name string, err error) {
		counts[v]++
		fmt.Fprintf(out, "%-6s %7.3fs %s\n", v, took.Seconds(), name)
		if err != nil {
			fmt.Fprintf(out, "       %v\n", err)
		}
	}
	err := within(func(tb testing.TB) {
		run := p.begin(tb, t)
		for _, i := range wanted {
			start := time.Now()
			v, err := fail, error(nil)
			failed := within(func(testing.TB) { v, err = run(i) })
			if err = errors.Join(err, failed); err != nil && v == pass {
				v = fail
			}
			say(v, time.Since(start), names[i], err)
			if !t.alive() {
				tb.Fatal(errDied)
			}
			if tb.Failed() { // by something that all cases use
				tb.FailNow()
			}
		}
		if err := p.end(); err != nil {
			tb.Fatal(err)
		}
	})
	bad := counts[fail] + counts[wedged]
	if err != nil {
		say(fail, 0, "at the end", err)
	}
	fmt.Fprintf(out, "%d cases in %.1f s: %d PASS, %d FAIL, %d WEDGED\n", len(wanted),
		time.Since(begin).Seconds(), counts[pass], counts[fail], counts[wedged])
	if bad > 0 || err != nil {
		return 1
	}
	return 0
}
