

# Probes on the network and on sockets of all kinds.

SOON = 0.7


def hears(family, address, request=b""):
    with socket.socket(family) as client:
        client.settimeout(SOON)
        client.connect(address)
        client.sendall(request)
        answer = b""
        while True:
            piece = client.recv(4096)
            if not piece:
                return answer
            answer += piece


def sends(family, address, data):
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(SOON)
        client.sendto(data, address)
    return True


@probe("network/tcp", "connects to a service on the host's loopback interface", proof="tcp")
def tcp(given):
    return Found(hears(socket.AF_INET, ("127.0.0.1", given.tcp)))


@probe("network/tcp-any", "connects to a service on the host by the address 0.0.0.0", proof="tcp")
def tcp_any(given):
    return Found(hears(socket.AF_INET, ("0.0.0.0", given.tcp)))


@probe("network/tcp-ipv6", "connects to a service on the host's loopback interface over IPv6", proof="tcp6")
def tcp_ipv6(given):
    return Found(hears(socket.AF_INET6, ("::1", given.tcp6)))


@probe("network/tcp-mapped", "connects to a service on the host by an IPv4-mapped IPv6 address", proof="tcp")
def tcp_mapped(given):
    return Found(hears(socket.AF_INET6, ("::ffff:127.0.0.1", given.tcp)))


@probe("network/tcp-host", "connects to a service by the host's network address", proof="tcp-host")
def tcp_host(given):
    return Found(hears(socket.AF_INET, tuple(given.tcp_host)))


@probe("network/udp", "sends a datagram to the host's loopback interface", judge="heard")
def udp(given):
    return sends(socket.AF_INET, ("127.0.0.1", given.udp), given.mark.encode())


@probe("network/udp-host", "sends a datagram to the host's network address", judge="heard")
def udp_host(given):
    return sends(socket.AF_INET, tuple(given.udp_host), given.mark.encode())


def question(name):
    parts = b"".join(bytes([len(part)]) + part for part in name.encode().split(b".") if part)
    return b"\x13\x37\x01\x00" + struct.pack(">4H", 1, 0, 0, 0) + parts + b"\0" + struct.pack(">2H", 16, 1)


@probe("network/dns-tunnel", "sends data in the name of a DNS query, and reads the answer", proof="udp")
def dns_tunnel(given):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SOON)
        client.sendto(question(given.mark + ".example"), ("127.0.0.1", given.udp))
        return Found(client.recv(4096)[4:])


@probe("network/dns-server", "queries the host's name server")
def dns_server(given):
    lines = read("/etc/resolv.conf").decode().split("\n")
    server = next((line.split()[1] for line in lines if line.startswith("nameserver ")), None)
    if server is None:
        return False, "no name server"
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SOON)
        client.sendto(question("."), (server, 53))
        return client.recv(4096)[:2] == b"\x13\x37", server


@probe("network/outside", "connects to a server on the internet")
def outside(given):
    with socket.socket() as client:
        client.settimeout(SOON)
        client.connect(("1.1.1.1", 443))
        return True


@probe("network/metadata", "connects to the cloud's metadata service")
def metadata(given):
    return bool(hears(socket.AF_INET, ("169.254.169.254", 80), b"GET / HTTP/1.0\r\n\r\n"))


@probe("network/raw", "creates a raw socket")
def raw(given):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return True


@probe("network/packets", "creates a socket that receives all packets")
def packets(given):
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    return True


@probe("network/ping", "pings the host's network address")
def ping(given):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as client:
        client.settimeout(SOON)
        client.sendto(struct.pack(">BBHHH", 8, 0, 0xF7FE, 0, 1), (given.tcp_host[0], 0))
        return len(client.recv(100)) > 0


@probe("network/netlink", "lists the host's network interfaces with netlink")
def netlink(given):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(SOON)
        kernel.send(struct.pack("IHHII", 20, 18, 0x301, 1, 0) + struct.pack("Bxxx", 0))
        answer = kernel.recv(262144)
    seen = [name for name in given.interfaces if name.encode() + b"\0" in answer]
    return bool(seen), f"sees {seen}"


@probe("network/interfaces", "reads the host's network interfaces from `/proc`")
def interfaces(given):
    text = read("/proc/self/net/dev", 65536).decode()
    seen = [name for name in given.interfaces if f"{name}:" in text]
    return bool(seen), f"sees {seen}"


@probe("network/listeners", "reads the host's listening ports from `/proc`")
def listeners(given):
    return f":{given.tcp:04X} 00000000:0000 0A" in read("/proc/self/net/tcp", 1 << 20).decode()


@probe("network/unix", "connects to a Unix socket in a host folder", proof="unix")
def unix(given):
    return Found(hears(socket.AF_UNIX, given.unix))


@probe("network/unix-datagram", "sends a datagram to a Unix socket in a host folder", judge="heard")
def unix_datagram(given):
    return sends(socket.AF_UNIX, given.datagrams, given.mark.encode())


@probe("network/abstract", "connects to an abstract socket of the host", proof="abstract")
def abstract(given):
    return Found(hears(socket.AF_UNIX, "\0" + given.abstract))


@probe("network/abstract-names", "reads the names of the host's abstract sockets from `/proc`", proof="abstract-name")
def abstract_names(given):
    for line in read("/proc/self/net/unix", 1 << 20).decode("utf-8", "replace").split("\n"):
        name = line.rpartition("@assize-attack-")[2]
        if len(name) == 32 and "@assize-attack-" in line:
            return Found(name)
    return False, "no abstract socket of the host is listed"


def takes(address):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SOON)
        client.connect(address)
        _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
    return Found(os.pread(descriptors[0], 4096, 0)) if descriptors else (False, "no descriptor received")


@probe("network/passed-descriptor", "receives a descriptor of a host file over an abstract socket", proof="passed")
def passed_descriptor(given):
    return takes("\0" + given.passed)


@probe("network/passed-descriptor-by-file", "receives a descriptor of a host file over a Unix socket in a host folder", proof="passed")
def passed_descriptor_by_file(given):
    return takes(given.passed_file)


@probe("network/serve-abstract", "serves an abstract socket that a host process connects to", judge="heard")
def serve_abstract(given):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0assize-serve-" + given.mark)
        server.listen(4)
        server.settimeout(1.5)
        connection, _ = server.accept()
        connection.sendall(given.mark.encode())
        connection.close()
    return True


@probe("network/docker", "sends a request to a container engine socket in a host folder", proof="docker")
def docker(given):
    return Found(hears(socket.AF_UNIX, given.docker, b"GET /version HTTP/1.0\r\n\r\n").rpartition(b"\n")[2])


@probe("network/engines", "sends a request to the container engine sockets at their default paths")
def engines(given):
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
                 f"/run/user/{os.getuid()}/podman/podman.sock", "/run/containerd/containerd.sock"):
        try:
            if hears(socket.AF_UNIX, path, b"GET /_ping HTTP/1.0\r\n\r\n"):
                return True, path
        except OSError:
            pass
    return False, "no container engine answers"


@probe("network/machines", "creates a vsock socket")
def machines(given):
    socket.socket(40, socket.SOCK_STREAM).close()
    return True


@probe("network/two-at-once", "creates a pair of netlink or vsock sockets")
def two_at_once(given):
    pair = (ctypes.c_int * 2)()
    results = [errno.errorcode.get(call("socketpair", family, 3, 0, pair)[1], "success") for family in (16, 40)]
    return results != ["EPERM", "EPERM"], f"{results}"


@probe("network/rare-protocol", "creates sockets of rarely used protocols (MPTCP, UDP-Lite, SCTP)")
def rare_protocol(given):
    made = []
    for kind, protocol in ((1, 262), (2, 136), (5, 132), (1, 132)):
        try:
            socket.socket(socket.AF_INET, kind, protocol).close()
            made.append(protocol)
        except OSError:
            pass
    return bool(made), f"created {made}"
