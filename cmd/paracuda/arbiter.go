// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/metrics"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// arbiterOptions are the flags of `paracuda arbiter`.
type arbiterOptions struct {
	socket, group, config, metrics string
	processMetrics                 bool
	warm                           int
	sandbox                        cli.OnOff
	logs                           logs.Flags
}

const arbiterText = `Shares the host's GPUs among its VMs: device processes register with it,
and it gives them turns. One runs on each host. It may be started, ended and restarted while VMs
run; without it they run unshared. It ends on SIGTERM, and reads its configuration again on
SIGHUP.`

func arbiterCommand() *cobra.Command {
	o := arbiterOptions{sandbox: true}
	c := &cobra.Command{
		Use:   "arbiter [options]",
		Short: "share the host's GPUs among its VMs",
		Long:  arbiterText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("group") {
				o.group = defaultGroup()
			}
			return o.run()
		},
	}
	f := c.Flags()
	f.StringVar(&o.socket, "socket", "",
		"listen on the UNIX socket `PATH` (default: where VMs look for the host's arbiter, or, "+
			"for a user other than root, for the user's own)")
	f.StringVar(&o.group, "group", "",
		"let the members of `GROUP` register VMs, too (default: kvm, if root starts it)")
	f.StringVar(&o.config, "config", "", "read the policies of VMs from `FILE`")
	f.StringVar(&o.metrics, "metrics", "",
		"serve metrics to Prometheus at http://`ADDRESS`/metrics")
	f.BoolVar(&o.processMetrics, "process-metrics", false,
		"metrics of guests' processes, too: each process adds new series")
	f.IntVar(&o.warm, "warm-workers", arbiter.DefaultWarm, "let the VMs of a GPU keep `N` workers "+
		"ready together, each with an idle context: the VMs whose programs began last have them")
	f.Var(&o.sandbox, "sandbox",
		"`on|off`: whether the arbiter keeps only the rights and files that it needs")
	cli.Complete(c, "sandbox", cli.Words("on", "off"))
	o.logs.Add(c, "info")
	cli.Complete(c, "group", cli.Groups)
	return c
}

// defaultGroup is the group of users who may run VMs.
func defaultGroup() string {
	if os.Getuid() == 0 {
		if g, err := user.LookupGroup("kvm"); err == nil {
			return g.Name
		}
	}
	return ""
}

// table reads the configuration; without a file it is empty.
func (o *arbiterOptions) table() (*policy.Table, error) {
	if o.config == "" {
		return &policy.Table{}, nil
	}
	return policy.ReadFile(o.config)
}

func (o *arbiterOptions) run() error {
	if err := o.anew(); err != nil {
		return fmt.Errorf("arbiter: %w", err)
	}
	o.socket = cmp.Or(o.socket, client.DefaultPath())
	if err := cli.CheckSocket("--socket", o.socket); err != nil {
		return err
	}
	if o.warm < 0 || o.warm > arbiter.MaxWarm {
		return cli.Usagef("--warm-workers %d: want 0 to %d", o.warm, arbiter.MaxWarm)
	}
	if _, _, err := net.SplitHostPort(o.metrics); o.metrics != "" && err != nil {
		return cli.Usagef("--metrics %s: want an address like localhost:9836", o.metrics)
	}
	log, endLog, err := logs.New(os.Stderr, &o.logs, "arbiter")
	if err != nil {
		return err
	}
	defer endLog()
	table, err := o.table()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	l, err := link.Listen(o.socket, o.group)
	if err != nil {
		return fmt.Errorf("arbiter: %w", err)
	}
	defer l.Close()
	a, err := arbiter.New(arbiter.Config{Table: table, Warm: &o.warm, Log: log})
	if err != nil {
		return err
	}
	defer a.Close()
	endMetrics, err := o.serveMetrics(a, log)
	if err != nil {
		return err
	}
	defer endMetrics()
	if err := sayReady(); err != nil {
		return err
	}
	if err := o.confine(log); err != nil {
		return err
	}
	loglimit.Keep(log).WithFields(logrus.Fields{"socket": o.socket, "version": version}).
		Info("waits for VMs")
	return o.serve(ctx, a, l, hangup, log)
}

// confine takes from this process what it doesn't need, once everything is open. It may still open
// its configuration, whose file may be replaced before it is read again.
func (o *arbiterOptions) confine(log *logrus.Entry) error {
	if !o.sandbox {
		log.Warn("--sandbox=off: a program that takes the arbiter over has this process's rights")
		return nil
	}
	if err := process.LeaveNoCore(); err != nil {
		return err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return err
	}
	if _, err := sandbox.KeepOnly(); err != nil {
		return err
	}
	files, err := o.files()
	if err != nil {
		return err
	}
	return process.Filter(sandbox.Arbiter, files)
}

// files are what the arbiter opens and removes while it runs.
func (o *arbiterOptions) files() (f sandbox.Files, err error) {
	path, err := filepath.Abs(o.socket)
	if err != nil {
		return f, fmt.Errorf("arbiter: %w", err)
	}
	f.Removable = []string{filepath.Dir(path)}
	if o.config == "" {
		return f, nil
	}
	if path, err = filepath.Abs(o.config); err != nil {
		return f, fmt.Errorf("arbiter: %w", err)
	}
	f.ReadOnly = []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		f.ReadOnly = append(f.ReadOnly, filepath.Dir(real))
	}
	return f, nil
}

// serveMetrics answers scrapes, if an address is given.
func (o *arbiterOptions) serveMetrics(
	a *arbiter.Arbiter, log *logrus.Entry,
) (end func(), err error) {
	if o.metrics == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", o.metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: want a free address like localhost:9836: %w",
			o.metrics, err)
	}
	go func() {
		err := metrics.Serve(l, a.VMs, o.processMetrics)
		if !errors.Is(err, net.ErrClosed) {
			log.WithError(err).Error("scrapes are not answered any more")
		}
	}()
	return func() { l.Close() }, nil
}

// serve answers VMs until ctx is done.
func (o *arbiterOptions) serve(
	ctx context.Context, a *arbiter.Arbiter, l *net.UnixListener, hangup <-chan os.Signal,
	log *logrus.Entry,
) error {
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	for {
		select {
		case <-hangup:
			o.readAgain(a, log)
		case err := <-served:
			return err
		case <-ctx.Done():
			l.Close()
			return <-served
		}
	}
}

// readAgain reads the configuration again, and uses it. A mistake in it changes nothing.
func (o *arbiterOptions) readAgain(a *arbiter.Arbiter, log *logrus.Entry) {
	table, err := o.table()
	if err == nil {
		err = a.SetTable(table)
	}
	if err != nil {
		loglimit.Keep(log).WithError(err).Error("the configuration stays as it was")
		return
	}
	loglimit.Keep(log).Info("the configuration was read again")
}
