package checks

import "github.com/disagg/disagg/preflight/facts"

// All is every check there is, in the order in which reports print them. What a
// check expects comes with the view it judges.
func All() []Check {
	return []Check{
		nodeReach(),

		rdmaCount(), rdmaLink(), rdmaRate(), rdmaMTU(), rdmaGID(), rdmaSubnets(), abi("rdma.abi", facts.ContextHost, true), rdmaUverbs(),
		rdmaFirmware(), rdmaDriver(), rdmaTools(), rdmaClass(), rdmaPFC(), rdmaMap(), rdmaTC(), rdmaPause(), rdmaScheduling(),
		rdmaDCQCN(), rdmaCNP(), rdmaProfile(), rdmaUniform(), rdmaCounters(), rdmaFlaps(), rdmaIdle(), rdmaNUMA(), rdmaPCIe(), rdmaCMTOS(), rdmaBandwidth(),

		gpuCount(), gpuIdentity(), gpuPartition(), gpuAlive(), gpuAccess(), gpuVRAM(), gpuHolders(), gpuStranded(), gpuBusy(),
		gpuECC(), gpuBadPages(), gpuPCIe(), gpuXGMI(), gpuThrottle(), gpuSMI(), gpuVersions(), gpuKernelLog(),

		hostCmdline(), hostNUMA(), memlock("host.memlock", facts.ContextHost), nofile("host.nofile", facts.ContextHost), hostACS(), hostPorts(),
		hostClock(), hostMemory(), hostGovernor(), hostKernel(), hostDead(),

		storageMounts(), storageSpace(), weights("storage.weights", facts.ContextHost),

		containerRuntime(), containerEnroot(), containerStale(), imagePresent(),

		imageStart(), abi("image.rdma", facts.ContextImage, true), imageDevices(), memlock("image.memlock", facts.ContextImage), nofile("image.nofile", facts.ContextImage),
		imageShm(), weights("image.weights", facts.ContextImage), imageTools(), imageEnv(),
	}
}
