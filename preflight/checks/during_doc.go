package checks

// AllDocs documents every check, and what is found while a run is on.
func AllDocs() []Doc { return append(Docs(), RunDocs()...) }

// RunDocs documents what is found while a run is on.
func RunDocs() []Doc {
	return []Doc{
		{RunCounters,
			"What the NICs counted between preflight and the end of a run, or the moment in which something was found to hang: RDMA counters, pauses for each priority, broken frames, and changes of the link, of every rail. Counters of failures must not grow; counters of retransmission grow on every busy fabric and count where one rail has 1000 or more and over ten times the median of all rails of the run. All that grew is in counters.json of the run directory, and in state/ where something hung.",
			"A bad cable or switch port shows under load only. One rail that retransmits slows every KV transfer through it and fails some, while all links are up; counters since boot cannot tell the run's from last month's.",
			"One rail: reseat or replace its cable and transceiver, look at its switch port, and leave the node out until then. Most rails at once: the fabric's PFC or ECN, not a cable. Counters that went back: the card or its driver was reset; see the kernel log."},
		{RunSockets,
			"The sockets in TIME_WAIT, in /proc/net/sockstat, compared with the number of ports for outgoing connections, when a run ends or something was found to hang.",
			"A KV connector or client that opens a connection for each request uses the ports up; from then on connections fail or wait, while every server answers its health check.",
			"Find the peer with ss -tan state time-wait. Widen net.ipv4.ip_local_port_range, lower the concurrency, or use a build that keeps connections."},
		{RunStuck,
			"Processes in uninterruptible sleep, when a run ends or something was found to hang.",
			"A program that waits in a driver or for a file server answers nobody and cannot be killed; its node drains when the scheduler tries.",
			"See where it waits in /proc/PID/stack as root. A driver that hangs needs a reboot of the node, a file server its administrator."},
	}
}
