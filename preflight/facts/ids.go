package facts

// Ids of commands. They are stable: bundles and documents name them.
const (
	NicctlQoS      = "nicctl.qos"        // nicctl show qos
	NicctlDCQCN    = "nicctl.dcqcn"      // nicctl show dcqcn
	NicctlPort     = "nicctl.port"       // nicctl show port
	NicctlCard     = "nicctl.card"       // nicctl show card -j
	NicctlFirmware = "nicctl.firmware"   // nicctl show version firmware
	NicctlHost     = "nicctl.host"       // nicctl show version host-software
	NicctlStats    = "nicctl.statistics" // nicctl show port statistics -j
	NicctlRate     = "nicctl.rate"       // nicctl show port statistics --rate -j

	NicctlLif = "nicctl.lif" // nicctl show lif -j
	NicctlQPs = "nicctl.qps" // nicctl show rdma queue-pair -j

	NiccliList = "niccli.list" // niccli --list
	NiccliQoS  = "niccli.qos"  // niccli -i N qos --ets --show; by index
	NiccliCoSQ = "niccli.cosq" // niccli -i N qos --ingress --cosq --show; by index
	BnxtCC     = "bnxt.cc"     // congestion control attributes in configfs; by device
	BnxtInfo   = "bnxt.info"   // the driver's info file in debugfs; by device

	DCBPFC   = "dcb.pfc"    // dcb pfc show dev X; by interface
	DCBApp   = "dcb.app"    // dcb -N app show dev X; by interface
	MlnxQoS  = "mlnx.qos"   // mlnx_qos -i X; by interface
	MlnxGIDs = "mlnx.gids"  // show_gids
	MlnxDev  = "mlnx.dev"   // ibdev2netdev
	MlxConf  = "mlx.config" // mlxconfig -d BDF q ROCE_CC_PRIO_MASK_P1; by PCI address
	CMATOS   = "rdma.tos"   // default type of service of rdma_cm; by device

	RDMALink     = "rdma.link"     // rdma link show
	RDMADev      = "rdma.dev"      // rdma dev show
	RDMAStat     = "rdma.stat"     // rdma -j statistic show
	IBVDevinfo   = "ibv.devinfo"   // ibv_devinfo -v
	IBVDevices   = "ibv.devices"   // ibv_devices
	EthtoolStat  = "ethtool.stat"  // ethtool -S X; by interface
	EthtoolPause = "ethtool.pause" // ethtool -a X; by interface
	IPAddr       = "ip.addr"       // ip -o -4 addr show
	IPRule       = "ip.rule"       // ip rule show
	Modinfo      = "modinfo"       // modinfo -F version MODULE; by module
	Perftest     = "perftest"      // ib_write_bw between two nodes; by device

	LspciAll     = "lspci.all"     // lspci -D -nn
	LspciGPU     = "lspci.gpu"     // lspci -D -vvv -d 1002:
	LspciBridges = "lspci.bridges" // lspci -D -vvv -d ::0604

	AMDSMIVersion   = "amdsmi.version"   // amd-smi version --json
	AMDSMIList      = "amdsmi.list"      // amd-smi list --json
	AMDSMIMetric    = "amdsmi.metric"    // amd-smi metric --json
	AMDSMIProcess   = "amdsmi.process"   // amd-smi process --json
	AMDSMIBadPages  = "amdsmi.badpages"  // amd-smi bad-pages --json
	AMDSMITopology  = "amdsmi.topology"  // amd-smi topology --json
	AMDSMIPartition = "amdsmi.partition" // amd-smi partition --json
	AMDSMITable     = "amdsmi.table"     // amd-smi
	AMDSMIMonitor   = "amdsmi.monitor"   // amd-smi monitor -p -t -u -m
	AMDSMIXGMI      = "amdsmi.xgmi"      // amd-smi xgmi
	AMDSMICPER      = "amdsmi.cper"      // amd-smi ras --cper
	ROCmSMI         = "rocmsmi"          // rocm-smi with every report we read

	KernelLog = "kernel.log" // dmesg, else the journal of this boot

	DockerInfo      = "docker.info"    // docker info --format {{json .}}
	DockerPS        = "docker.ps"      // docker ps --no-trunc --format {{json .}}
	DockerInspect   = "docker.inspect" // docker inspect of every running container
	DockerImage     = "docker.image"   // docker image inspect IMAGE; by image
	EnrootVersion   = "enroot.version" // enroot version
	TimeSync        = "time.sync"      // timedatectl show
	ListeningSocket = "sockets.tcp"    // ss -tlnp
	Squeue          = "squeue"         // the jobs on this node
	GPUProbe        = "gpu.probe"      // rocminfo
	Tool            = "tool"           // a program's path inside the image; by name
)

// Of is the id of a command that is run once for each device.
func Of(id, device string) string { return id + "/" + device }
