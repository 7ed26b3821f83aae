// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// What a terminal is told: to clear the screen, and to leave the cursor out while it is drawn.
const (
	clearScreen = "\x1b[H\x1b[2J"
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
)

// topOptions are the flags of `paracuda top`.
type topOptions struct {
	path      string
	once, raw bool
	every     time.Duration
}

const topText = `Shows the VMs that share the GPUs, the busiest first, and what their processes
use, until it is interrupted, or once if it prints to no terminal. GPU is the part of the last
moment for which a VM had it; TURN says who has it now (*), who needs no turns, being alone
(-), and who is suspended.`

// Top is `paracuda top`.
func Top() *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:   "top [options]",
		Short: "show what VMs have of the GPUs",
		Long:  topText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return o.run() },
	}
	f := c.Flags()
	f.StringVar(&o.path, "arbiter", "", cli.ArbiterHelp)
	f.BoolVar(&o.once, "once", false, "print it once and exit")
	f.BoolVar(&o.raw, "json", false, "print what the arbiter tells as JSON, once, and exit")
	f.DurationVar(&o.every, "every", 2*time.Second, "look again after `TIME`, 100ms or more")
	return c
}

// run shows the arbiter's VMs.
func (o *topOptions) run() error {
	if o.every < 100*time.Millisecond {
		return cli.Usagef("top: --every %v: want 100ms or more", o.every)
	}
	if err := cli.CheckSocket("--arbiter", o.path); err != nil {
		return err
	}
	list := func() ([]link.VM, error) { return client.List(o.path) }
	switch {
	case o.raw:
		return topJSON(cli.Stdout, list)
	case o.once, cli.OnTerminal(os.Stdout) == io.Discard:
		return topOnce(cli.Stdout, list, o.every)
	}
	return topLive(cli.Stdout, list, o.every)
}

func topJSON(w io.Writer, list func() ([]link.VM, error)) error {
	vms, err := list()
	if err != nil {
		return err
	}
	if vms == nil {
		vms = []link.VM{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"vms": vms})
}

// topOnce looks at the VMs twice, and prints what happened in between.
func topOnce(w io.Writer, list func() ([]link.VM, error), every time.Duration) error {
	var t topTable
	for i := range 2 {
		if i > 0 && len(t.now) > 0 {
			time.Sleep(every)
		}
		vms, err := list()
		if err != nil {
			return err
		}
		t.look(vms, time.Now())
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// topLive draws until it is interrupted.
func topLive(w io.Writer, list func() ([]link.VM, error), every time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	vms, err := list()
	if err != nil {
		return err
	}
	var t topTable
	fmt.Fprint(w, hideCursor)
	defer fmt.Fprint(w, showCursor)
	for ; err == nil; vms, err = list() {
		t.look(vms, time.Now())
		if _, err := io.WriteString(w, clearScreen+fit(t.String())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
	return err
}

// fit leaves out the lines for which the terminal has no room, and the ends of longer ones.
func fit(text string) string {
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row < 2 || size.Col == 0 {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), int(size.Row)-1)]
	for i, line := range lines {
		if r := []rune(line); len(r) > int(size.Col) {
			lines[i] = string(r[:size.Col])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// topTable is what is shown: the difference of two looks at the VMs.
type topTable struct {
	now, before []link.VM
	at          time.Time
	gone        time.Duration
}

// look takes what the arbiter tells now.
func (t *topTable) look(vms []link.VM, now time.Time) {
	t.before, t.now = t.now, vms
	t.gone, t.at = now.Sub(t.at), now
	slices.SortFunc(t.now, func(a, b link.VM) int { return t.order(&a, &b) })
}

// vmBefore is a VM at the look before; nil: it wasn't there.
func (t *topTable) vmBefore(name string) *link.VM {
	for i := range t.before {
		if t.before[i].Name == name {
			return &t.before[i]
		}
	}
	return nil
}
