"""A test's certificate authority, and the certificates that it signs, in files like those of an issuer."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from citewire_kit.tls_files import TlsFiles


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass
class Authority:
    """Signs certificates for hosts."""

    name: str = "test authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=_key)

    def __post_init__(self) -> None:
        self.certificate = self._signed(self.name, self.key, hosts=(), authority=True)

    def issue(self, folder: Path, host: str) -> int:
        """Writes a new certificate for `host` into `folder`, all files at once; returns its serial number.

        The folder is a link that is replaced, like a Secret's volume by the kubelet.
        """
        key = _key()
        certificate = self._signed(host, key, hosts=(host,), authority=False)
        content = Path(mkdtemp(dir=folder.parent))
        (content / "tls.crt").write_bytes(_pem(certificate))
        (content / "tls.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (content / "ca.crt").write_bytes(_pem(self.certificate))
        old = folder.resolve() if folder.is_symlink() else None
        link = folder.with_name(f"{folder.name}.new")
        link.symlink_to(content)
        os.replace(link, folder)  # noqa: PTH105 # Path.replace would follow the link
        if old is not None:
            shutil.rmtree(old)
        return certificate.serial_number

    def _signed(
        self, common: str, key: ec.EllipticCurvePrivateKey, *, hosts: tuple[str, ...], authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(common))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(names, critical=False).add_extension(usages, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def files_in(folder: Path) -> TlsFiles:
    """The files as cert-manager names them."""
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
