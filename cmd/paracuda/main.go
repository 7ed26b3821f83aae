// SPDX-License-Identifier: Apache-2.0

// Command paracuda gives virtual machines a paravirtual CUDA GPU.
//
// Each subcommand has a file of its own, which makes a cobra.Command and reads its options.
//
// # Files
//
//	of all commands    main.go command.go ending.go (signals) outputs.go completion.go
//	                   version.go config.go (its file) childlog.go
//	a VM's processes   device.go worker.go mover.go starter.go starterclient.go tree.go
//	                   orphans.go (whose starter process has died)
//	  how they start   anew.go (without what was inherited) serve.go service.go (systemd)
//	                   socket.go spawn.go sandbox.go layout.go driverfiles.go
//	                   limits.go (and who goes first when memory is short) sharing.go self.go
//	                   processors.go (how many they use)
//	  which GPUs       gpuoption.go (--gpu) hostgpus.go (asks for the host's) vmgpus.go (a VM's)
//	  how they go on   keep.go (the keeper) threads.go keeperflag.go before.go (what a device
//	                   process left to the next) keptsession.go replace.go versions.go from.go
//	a host's           arbiter.go set.go
//	looking on         usage.go probe.go doctor.go
//	VMs                run.go
//
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
