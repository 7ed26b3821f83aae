// SPDX-License-Identifier: Apache-2.0

// Command paracuda gives virtual machines a paravirtual CUDA GPU.
//
// Each subcommand has a file of its own, which makes a cobra.Command and reads its options.
//
// # Files
//
//	of all commands    main.go command.go ending.go (signals) outputs.go completion.go
//	                   version.go config.go (its file)
//	a device process   device.go serve.go sandbox.go sharing.go service.go (systemd) socket.go
//	                   anew.go (it begins without what was inherited)
//	  which GPUs       gpuoption.go (--gpu) hostgpus.go (asks for the host's) vmgpus.go (a VM's)
//	  how it goes on   keep.go (the keeper) keeperflag.go before.go (what a device process left to
//	                   the next) keptsession.go replace.go versions.go from.go
//	a host's           arbiter.go set.go
//	looking on         probe.go doctor.go
//	VMs                run.go
//
//	children           a VM's other processes: how they start, and what they execute
//	process            what a process does to itself
//	cli                arguments, exit codes, outputs and progress, which commands share
//	manual             --help and manual pages
//	logs               how processes log
//	doctor, compute    what is wrong with the host
//	policyfile         what set --save writes
//	plug               attach and detach
//	suspension         suspend and resume
//	show               what stats, ps and top print
package main

import (
	"os"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

func main() {
	isProgram = true
	if code := cli.Status(dispatch(os.Args[1:])); code != 0 {
		os.Exit(code)
	}
}
