// SPDX-License-Identifier: Apache-2.0

package children

import (
	"errors"
	"os"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/mover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

func runMover(o *childOptions) error {
	log, endLog, control, err := o.begin(os.Stderr, "mover")
	if err != nil {
		return err
	}
	defer endLog()
	err = mover.Run(mover.Config{
		Control: control, Log: log,
		Confine: o.confine(confined{
			soft: sandbox.SoftMover, cuda: sandbox.CUDAMover, files: DriverFiles,
		}),
	})
	switch {
	case errors.Is(err, mover.ErrUnneeded):
		log.WithError(err).Debug("mover ends")
		return cli.ExitCode(1)
	case err != nil:
		loglimit.Keep(log).WithError(err).Error("mover ends")
		return cli.ExitCode(1)
	}
	return nil
}

func connectMover(e link.Half) (moves.Mover, error) { return mover.NewClient(e) }
